"""The commands that ask a running Spindle; what they do is in the modules that they import when they run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cli.client import Connection

Url = Annotated[
    str | None,
    typer.Option(
        envvar="SPINDLE_URL", help="Address of Spindle; one on this machine when left out.", show_default=False
    ),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="SPINDLE_KEY", help="API key; DATA/admin-key when left out. Others see options: prefer the environment."
    ),
]
Data = Annotated[Path, typer.Option(envvar="SPINDLE_DATA", help="Data folder of a Spindle on this machine.")]
DATA = Path(".spindle")

keys = typer.Typer(help="API keys of the organization.", no_args_is_help=True)
orgs = typer.Typer(help="Organizations of the instance.", no_args_is_help=True)


def register(main: typer.Typer) -> None:
    """Adds the commands to `spindle`."""
    for command in (apply, export, execute):
        main.command()(command)
    main.add_typer(keys, name="keys")
    main.add_typer(orgs, name="orgs")


def apply(
    file: Annotated[Path, typer.Option("-f", "--file", help="The file that declares what there is to be.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show it; exit code 3 if there is anything.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete what the file's sections leave out.")] = False,
    url: Url = None,
    key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Make the projects, agents, categories and jobs that a file declares, and show what changes."""
    from cli.apply import apply

    _exit(lambda: apply(_connection(url, key, data), file, dry_run, prune))


def export(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The file; printed when left out.")] = None,
    url: Url = None,
    key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Write the projects, agents, categories and jobs as a file for `spindle apply`."""
    from cli.export import export

    _exit(lambda: export(_connection(url, key, data), output))


def execute(
    job: Annotated[str, typer.Argument(help="PROJECT/JOB, by their names.", metavar="PROJECT/JOB")],
    follow: Annotated[bool, typer.Option("--follow", help="Until its end; exit code 3 if it fails.")] = False,
    parameter: Annotated[list[str] | None, typer.Option("--parameter", "-p", help="A ${NAME}, as NAME=value.")] = None,
    url: Url = None,
    key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Execute a job; with --follow, show its progress and log until it ends."""
    from cli.execute import execute

    _exit(lambda: execute(_connection(url, key, data), job, parameter or [], follow))


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scope: Annotated[list[str] | None, typer.Option(help="All but the admin scopes when left out.")] = None,
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Expires after so many days.")] = None,
    url: Url = None,
    key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Make a key and print it, this once."""
    from cli.identity import create_key

    _exit(lambda: create_key(_connection(url, key, data), name, scope or [], days))


@keys.command("list")
def list_keys(url: Url = None, key: ApiKey = None, data: Data = DATA) -> None:
    """List the keys, without their secrets."""
    from cli.identity import list_keys

    _exit(lambda: list_keys(_connection(url, key, data)))


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="Its id, as `spindle keys list` shows it.", metavar="ID")],
    url: Url = None,
    key: ApiKey = None,
    data: Data = DATA,
) -> None:
    """Revoke a key: from now on it opens nothing."""
    from cli.identity import revoke_key

    _exit(lambda: revoke_key(_connection(url, key, data), key_id))


@orgs.command("create")
def create_organization(
    name: Annotated[str, typer.Argument()], url: Url = None, key: ApiKey = None, data: Data = DATA
) -> None:
    """Make an organization and print its first admin key, this once."""
    from cli.identity import create_organization

    _exit(lambda: create_organization(_connection(url, key, data), name))


@orgs.command("list")
def list_organizations(url: Url = None, key: ApiKey = None, data: Data = DATA) -> None:
    """List the organizations."""
    from cli.identity import list_organizations

    _exit(lambda: list_organizations(_connection(url, key, data)))


def _connection(url: str | None, key: str | None, data: Path) -> Connection:
    from cli.client import Connection

    return Connection(url, key, data)


def _exit(command: Callable[[], int]) -> None:
    """Ends with the command's exit code; what went wrong is told in a sentence."""
    from cli.client import ClientError

    try:
        code = command()
    except ClientError as error:
        print(error, file=sys.stderr)
        code = 1
    raise typer.Exit(code)
