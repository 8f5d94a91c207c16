"""What prompts were proven to mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.options import DATA, ApiKey, ServerData, Url, connect, run_remote

app = typer.Typer(help="What prompts were proven to mean: selectors by host.", no_args_is_help=True)
SelectorsId = Annotated[str, typer.Argument(metavar="ID", help="Id of proven selectors, as `selectors list` shows it.")]
HostName = Annotated[str | None, typer.Option(help="Only those of this host.")]


@app.command(name="list")
def list_selectors(host: HostName = None, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """List proven selectors, with the score of each field."""
    from cli.selectors import list_selectors

    run_remote(lambda: list_selectors(connect(url, key, data), host))


@app.command(name="show")
def show_selectors(id_: SelectorsId, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """Show selectors, scores, sample pages, model, tokens and cost."""
    from cli.selectors import show_selectors

    run_remote(lambda: show_selectors(connect(url, key, data), id_))


@app.command(name="pin")
def pin_selectors(id_: SelectorsId, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """Let no run replace selectors."""
    from cli.selectors import pin_selectors

    run_remote(lambda: pin_selectors(connect(url, key, data), id_))


@app.command(name="edit")
def edit_selectors(
    id_: SelectorsId,
    field: Annotated[str, typer.Argument(help="Name of the field.")],
    selector: Annotated[str, typer.Argument(help="CSS selector that reads it.")],
    method: Annotated[str, typer.Option(help="text, href, src or attr:NAME.")] = "text",
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Read a field by another selector."""
    from cli.selectors import edit_selectors

    run_remote(lambda: edit_selectors(connect(url, key, data), id_, field, selector, method))


@app.command(name="delete")
def delete_selectors(id_: SelectorsId, url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """Delete selectors: the next run asks the model again."""
    from cli.selectors import delete_selectors

    run_remote(lambda: delete_selectors(connect(url, key, data), id_))


@app.command(name="export")
def export_selectors(
    file: Annotated[Path, typer.Argument(help="Lock file to write.", dir_okay=False)],
    host: HostName = None,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Write selectors to a lock file in text."""
    from cli.selectors import export_selectors

    run_remote(lambda: export_selectors(connect(url, key, data), file, host))
