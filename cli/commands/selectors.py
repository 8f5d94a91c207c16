"""What prompts were proven to mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.options import ServiceCall, call_service

app = typer.Typer(help="What prompts were proven to mean: selectors by host.", no_args_is_help=True)
SelectorsId = Annotated[str, typer.Argument(metavar="ID", help="Id of proven selectors, as `selectors list` shows it.")]
HostName = Annotated[str | None, typer.Option(help="Only those of this host.")]


@app.command(name="list")
@call_service
def list_selectors(host: HostName = None) -> ServiceCall:
    """List proven selectors, with the score of every field."""
    from cli.selectors import list_selectors

    return lambda connection: list_selectors(connection, host)


@app.command(name="show")
@call_service
def show_selectors(id_: SelectorsId) -> ServiceCall:
    """Show selectors, scores, sample pages, model, tokens and cost."""
    from cli.selectors import show_selectors

    return lambda connection: show_selectors(connection, id_)


@app.command(name="pin")
@call_service
def pin_selectors(id_: SelectorsId) -> ServiceCall:
    """Let no run replace selectors."""
    from cli.selectors import pin_selectors

    return lambda connection: pin_selectors(connection, id_)


@app.command(name="edit")
@call_service
def edit_selectors(
    id_: SelectorsId,
    field: Annotated[str, typer.Argument(help="Name of the field.")],
    selector: Annotated[str, typer.Argument(help="CSS selector that reads it.")],
    method: Annotated[str, typer.Option(help="text, href, src or attr:NAME.")] = "text",
) -> ServiceCall:
    """Read a field by another selector."""
    from cli.selectors import edit_selectors

    return lambda connection: edit_selectors(connection, id_, field, selector, method)


@app.command(name="delete")
@call_service
def delete_selectors(id_: SelectorsId) -> ServiceCall:
    """Delete selectors: the next run asks the model again."""
    from cli.selectors import delete_selectors

    return lambda connection: delete_selectors(connection, id_)


@app.command(name="export")
@call_service
def export_selectors(
    file: Annotated[Path, typer.Argument(help="Lock file to write.", dir_okay=False)], host: HostName = None
) -> ServiceCall:
    """Write selectors to a lock file in text."""
    from cli.selectors import export_selectors

    return lambda connection: export_selectors(connection, file, host)
