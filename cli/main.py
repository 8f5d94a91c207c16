"""The `spindle` command. A command imports its module when it runs, so that `spindle --help` stays fast."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from pydantic import ValidationError

from cli.commands import identity, jobs, notify, pipelines, selectors, service, tables

main = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for app in (service.app, pipelines.app, jobs.app, tables.app):
    main.add_typer(app)
main.add_typer(selectors.app, name="selectors")
main.add_typer(notify.app, name="notify")
main.add_typer(identity.keys, name="keys")
main.add_typer(identity.orgs, name="orgs")


def _print_version(wanted: bool) -> None:
    if wanted:
        from core.infra.version import API_VERSION, get_version

        print(f"spindle {get_version()} (API {API_VERSION})")
        raise typer.Exit


@main.callback()
def show_help(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """YAML pipelines that turn web pages and files into datasets you can query with SQL."""


def command() -> None:
    """Run `spindle`; print a sentence for each invalid setting."""
    try:
        main()
    except ValidationError as error:
        if error.title != "Settings":
            raise
        for problem in error.errors():
            variable = f"SPINDLE_{'_'.join(map(str, problem['loc'][1:])).upper()}"
            reason = problem["msg"].removeprefix("Value error, ").removeprefix(f"{variable}: ")
            print(f"{variable} cannot be used: {reason}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    command()
