"""The service on this machine: started, moved, cleaned up, and its secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.commands.options import DATA, Data, ServerData

app = typer.Typer()
secrets = typer.Typer(help="The encrypted secrets in the database.", no_args_is_help=True)
app.add_typer(secrets, name="secrets")


@app.command()
def up(
    data: Data = DATA,
    port: Annotated[int, typer.Option(envvar="SPINDLE_PORT", help="Port of the API.")] = 8080,
    ui_port: Annotated[int, typer.Option(envvar="SPINDLE_UI_PORT", help="Port of the Dagster UI.")] = 3000,
    host: Annotated[str, typer.Option(envvar="SPINDLE_HOST", help="Address that the API listens on.")] = "127.0.0.1",
    workers: Annotated[
        int, typer.Option(envvar="SPINDLE_API_WORKERS", min=1, max=64, help="Processes that serve the API.")
    ] = 1,
    workspace: Annotated[
        Path | None,
        typer.Option(
            envvar="SPINDLE_DAGSTER_WORKSPACE",
            help="A workspace.yaml with Dagster code locations of your own.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print all log lines, such as requests.")] = False,
) -> None:
    """Start everything in the foreground: API, launcher, Dagster webserver, daemon and code server."""
    from cli.up import up

    raise typer.Exit(up(data, port, ui_port, host, workers, workspace, verbose))


@app.command()
def history(
    data: ServerData = DATA,
    port: Annotated[int, typer.Option(help="Port of its pages.")] = 18080,
    host: Annotated[str, typer.Option(help="Address that it listens on; it has no login.")] = "127.0.0.1",
) -> None:
    """Start a history server of Spark over the event logs of executions, in the foreground."""
    from cli.spark_history_server import serve_spark_history

    serve_spark_history(data, host, port)


@app.command()
def migrate(
    data: Data = DATA,
) -> None:
    """Migrate the metadata database to this version."""
    from core.infra.settings import Settings

    Settings()  # a wrong one is told here
    environment = {**os.environ, "SPINDLE_DATA": str(data.resolve())}
    raise typer.Exit(subprocess.run([sys.executable, "-P", "-m", "core.infra.migrations"], env=environment).returncode)


@app.command(name="copy-database")
def copy_database(
    url: Annotated[
        str,
        typer.Argument(
            help="An empty database: postgresql://user@host/name. Leave the password to PGPASSWORD or ~/.pgpass.",
        ),
    ],
    data: Data = DATA,
) -> None:
    """Copy the metadata database, such as SQLite's, to PostgreSQL while no server runs."""
    from cli.data_folder import copy_database

    copy_database(data, url)


@app.command()
def adopt(
    data: Data = DATA,
    copy: Annotated[
        bool,
        typer.Option("--copy", help="The database is a copy, and SPINDLE_STORAGE an address of its own for its files."),
    ] = False,
) -> None:
    """Let database, storage and service key belong together, after a move or a restore, while Spindle is stopped."""
    from cli.adopt import adopt_parts

    adopt_parts(data, copy)


@app.command()
def cleanup(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    data: Data = DATA,
) -> None:
    """Remove files, logs, messages and runs of Dagster that are not kept any longer; the service does so by itself."""
    from cli.cleanup import clean_up

    raise typer.Exit(clean_up(data, dry_run=dry_run))


@app.command()
def openapi() -> None:
    """Print the OpenAPI file."""
    raise typer.Exit(subprocess.run([sys.executable, "-P", "-m", "api.openapi"], check=False).returncode)


@secrets.command("rotate")
def rotate_secrets(
    data: Data = DATA,
) -> None:
    """Encrypt all secrets with a new service key while Spindle is stopped; run it again after an interruption."""
    from cli.data_folder import rotate_secrets

    rotate_secrets(data)
