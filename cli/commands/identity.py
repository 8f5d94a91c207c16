"""Organizations of a service, and their API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import DATA, ApiKey, ServerData, Url, connect, run_remote

keys = typer.Typer(help="API keys of the organization.", no_args_is_help=True)
orgs = typer.Typer(help="Organizations of the instance.", no_args_is_help=True)


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="The purpose of the key.")],
    scope: Annotated[list[str] | None, typer.Option(help="Default: all but the admin scopes.")] = None,
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Days until the key expires.")] = None,
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Create a key and print it; it is not shown again."""
    from cli.identity import create_key

    run_remote(lambda: create_key(connect(url, key, data), name, scope or [], days))


@keys.command("list")
def list_keys(url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """List the keys, without their secrets."""
    from cli.identity import list_keys

    run_remote(lambda: list_keys(connect(url, key, data)))


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="Its id, as `spindle keys list` shows it.", metavar="ID")],
    url: Url = None,
    key: ApiKey = None,
    data: ServerData = DATA,
) -> None:
    """Revoke a key; it is refused from now on."""
    from cli.identity import revoke_key

    run_remote(lambda: revoke_key(connect(url, key, data), key_id))


@orgs.command("create")
def create_organization(
    name: Annotated[str, typer.Argument()], url: Url = None, key: ApiKey = None, data: ServerData = DATA
) -> None:
    """Create an organization and print its first admin key; it is not shown again."""
    from cli.identity import create_organization

    run_remote(lambda: create_organization(connect(url, key, data), name))


@orgs.command("list")
def list_organizations(url: Url = None, key: ApiKey = None, data: ServerData = DATA) -> None:
    """List the organizations."""
    from cli.identity import list_organizations

    run_remote(lambda: list_organizations(connect(url, key, data)))
