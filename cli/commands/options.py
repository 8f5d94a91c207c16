"""Arguments and options that several commands have, and calls of a service."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cli.client import Connection

PipelineFile = Annotated[Path, typer.Argument(help="A pipeline file (YAML).", exists=True, dir_okay=False)]
TransformsFile = Annotated[
    Path | None,
    typer.Option("--transforms", help="A Python file; its functions are row transforms.", exists=True, dir_okay=False),
]
Parameters = Annotated[list[str] | None, typer.Option("--parameter", "-p", help="A ${NAME}, as NAME=value.")]
RowsFile = Annotated[
    Path | None,
    typer.Option(
        "--rows",
        help="Rows for load_rows: a file of JSON lines (.jsonl), JSON, CSV, or addresses in lines.",
        exists=True,
        dir_okay=False,
    ),
]
DATA = Path(".spindle")
Data = Annotated[Path, typer.Option(envvar="SPINDLE_DATA", help="Data folder: database, keys, storage, logs.")]
Url = Annotated[
    str | None,
    typer.Option(
        envvar="SPINDLE_URL", help="Address of Spindle; default: the instance of the data folder.", show_default=False
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="SPINDLE_KEY",
        help="API key; default: DATA/admin-key. Other users can see options: prefer the environment.",
    ),
]
Job = Annotated[str, typer.Argument(help="PROJECT/JOB, by their names.", metavar="PROJECT/JOB")]
ExecutionId = Annotated[
    str | None, typer.Argument(help="Its id; default: the job's newest.", metavar="EXECUTION", show_default=False)
]
Follow = Annotated[bool, typer.Option("--follow", help="Wait for the end; exit code 3 if it fails.")]
Queue = Annotated[bool, typer.Option("--queue", help="Wait for room in the project and in pools.")]
ServerData = Annotated[Path, typer.Option(envvar="SPINDLE_DATA", help="Data folder of a Spindle on this machine.")]


ServiceCall = Callable[["Connection"], int]


def call_service(command: Callable[..., ServiceCall]) -> Callable[..., None]:
    """Add the options of a connection to a command; exit with the code of its call, or with 1 after a ClientError."""
    own = [*inspect.signature(_name_options, eval_str=True).parameters.values()]
    given = inspect.signature(command, eval_str=True)
    parameters = [*given.parameters.values(), *own]

    @wraps(command)
    def run(url: str | None, key: str | None, data: Path, **arguments: object) -> None:
        from cli.client import ClientError, Connection

        try:
            code = command(**arguments)(Connection(url, key, data))
        except ClientError as error:
            print(error, file=sys.stderr)
            code = 1
        raise typer.Exit(code)

    run.__dict__["__signature__"] = given.replace(parameters=parameters, return_annotation=None)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _name_options(url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """The options of a connection to a service."""
