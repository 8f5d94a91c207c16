"""The `spindle` command. A command imports what it runs only when it runs, so that `spindle --help` stays fast."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from cli import remote

main = typer.Typer(
    help="YAML pipelines that turn web pages and files into datasets you can query with SQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

PipelineFile = Annotated[Path, typer.Argument(help="A pipeline file (YAML).", exists=True, dir_okay=False)]
TransformsFile = Annotated[
    Path | None,
    typer.Option("--transforms", help="A Python file; its functions are row transforms.", exists=True, dir_okay=False),
]
Parameters = Annotated[list[str] | None, typer.Option("--parameter", "-p", help="A ${NAME}, as NAME=value.")]


@main.command()
def up(
    data: Annotated[
        Path, typer.Option(envvar="SPINDLE_DATA", help="Data folder: database, keys, storage, logs.")
    ] = Path(".spindle"),
    port: Annotated[int, typer.Option(envvar="SPINDLE_PORT", help="Port of the API.")] = 8080,
    ui_port: Annotated[int, typer.Option(envvar="SPINDLE_UI_PORT", help="Port of the Dagster UI.")] = 3000,
    host: Annotated[str, typer.Option(envvar="SPINDLE_HOST", help="Address that the API listens on.")] = "127.0.0.1",
    workers: Annotated[
        int, typer.Option(envvar="SPINDLE_API_WORKERS", min=1, max=64, help="Processes that serve the API.")
    ] = 1,
) -> None:
    """Start everything in the foreground: API, launcher, Dagster webserver, daemon and code server."""
    from cli.up import up

    raise typer.Exit(up(data, port, ui_port, host, workers))


@main.command()
def run(
    file: PipelineFile,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="A .parquet, .csv or .json file.")] = None,
    parameter: Parameters = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many rows.")] = None,
    guard: Annotated[bool, typer.Option("--guard", help="Refuse loopback and private addresses too.")] = False,
    transforms: TransformsFile = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps fetched pages, for later runs that may trust them.", file_okay=False),
    ] = None,
) -> None:
    """Run a pipeline file without any server: progress, then the rows as a table."""
    from cli.run import run

    raise typer.Exit(run(file, output, parameter or [], guard, limit, transforms, cache))


@main.command()
def check(file: PipelineFile, parameter: Parameters = None, transforms: TransformsFile = None) -> None:
    """Parse and plan a pipeline file: its errors with their lines, else the plan with its passes."""
    from cli.check import check

    raise typer.Exit(check(file, parameter or [], transforms))


@main.command()
def migrate(
    data: Annotated[
        Path, typer.Option(envvar="SPINDLE_DATA", help="Data folder: database, keys, storage, logs.")
    ] = Path(".spindle"),
) -> None:
    """Bring the metadata database up to date with this version."""
    environment = {**os.environ, "SPINDLE_DATA": str(data.resolve())}
    raise typer.Exit(subprocess.run([sys.executable, "-P", "-m", "core.infra.migrations"], env=environment).returncode)


@main.command()
def openapi() -> None:
    """Print the OpenAPI file."""
    raise typer.Exit(subprocess.run([sys.executable, "-P", "-m", "api.openapi"], check=False).returncode)


@main.command()
def demo(
    data: Annotated[Path | None, typer.Option(help="Data folder (default .spindle-demo in the clone).")] = None,
    once: Annotated[bool, typer.Option("--once", help="End after the job; exit code 0 only if rows came.")] = False,
) -> None:
    """Start Spindle, crawl the shop in examples/ and show its rows."""
    from cli.demo import demo

    raise typer.Exit(demo(data, once))


secrets = typer.Typer(help="What is sealed in the database.", no_args_is_help=True)


@secrets.command("rotate")
def rotate_secrets(
    data: Annotated[
        Path, typer.Option(envvar="SPINDLE_DATA", help="Data folder: database, keys, storage, logs.")
    ] = Path(".spindle"),
) -> None:
    """Seal everything under a new service key, while Spindle is stopped; run it again if it was interrupted."""
    from cli.secrets import rotate_secrets

    raise typer.Exit(rotate_secrets(data))


remote.register(main)
main.add_typer(secrets, name="secrets")


def command() -> None:
    """`spindle`; a setting that cannot be used is told in a sentence."""
    try:
        main()
    except ValidationError as error:
        if error.title != "Settings":
            raise
        for problem in error.errors():
            variable = f"SPINDLE_{'_'.join(map(str, problem['loc'])).upper()}"
            reason = problem["msg"].removeprefix("Value error, ").removeprefix(f"{variable}: ")
            print(f"{variable} cannot be used: {reason}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    command()
