"""Messages to people about jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import ServiceCall, call_service

app = typer.Typer(help="Messages to people about jobs.", no_args_is_help=True)


@app.command("test")
@call_service
def send_test_message(
    rule: Annotated[str, typer.Argument(help="PROJECT/RULE, by their names.", metavar="PROJECT/RULE")],
) -> ServiceCall:
    """Send a test message by a notification rule and print its target's answer; exit code 3 if it fails."""
    from cli.notify import send_test

    return lambda connection: send_test(connection, rule)
