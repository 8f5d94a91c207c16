"""Organizations of a service, and their API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import ServiceCall, call_service

keys = typer.Typer(help="API keys of the organization.", no_args_is_help=True)
orgs = typer.Typer(help="Organizations of the instance.", no_args_is_help=True)


@keys.command("create")
@call_service
def create_key(
    name: Annotated[str, typer.Argument(help="The purpose of the key.")],
    scope: Annotated[list[str] | None, typer.Option(help="Default: all but the admin scopes.")] = None,
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Days until the key expires.")] = None,
) -> ServiceCall:
    """Create a key and print it; it is not shown again."""
    from cli.identity import create_key

    return lambda connection: create_key(connection, name, scope or [], days)


@keys.command("list")
@call_service
def list_keys() -> ServiceCall:
    """List the keys, without their secrets."""
    from cli.identity import list_keys

    return lambda connection: list_keys(connection)


@keys.command("revoke")
@call_service
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="Its id, as `spindle keys list` shows it.", metavar="ID")],
) -> ServiceCall:
    """Revoke a key; it is refused from now on."""
    from cli.identity import revoke_key

    return lambda connection: revoke_key(connection, key_id)


@orgs.command("create")
@call_service
def create_organization(name: Annotated[str, typer.Argument()]) -> ServiceCall:
    """Create an organization and print its first admin key; it is not shown again."""
    from cli.identity import create_organization

    return lambda connection: create_organization(connection, name)


@orgs.command("limits")
@call_service
def set_limits(
    organization: Annotated[str, typer.Argument(help="Its id, as `spindle orgs list` shows it.", metavar="ID")],
    executions: Annotated[int | None, typer.Option(min=0, help="Executions at once.")] = None,
    daily_executions: Annotated[int | None, typer.Option(min=0, help="Executions a day.")] = None,
    storage_gigabytes: Annotated[float | None, typer.Option(min=0, help="Gigabytes of datasets.")] = None,
    queries: Annotated[int | None, typer.Option(min=0, help="Queries at once.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Let all be as the settings say.")] = False,
) -> ServiceCall:
    """Show the limits of an organization; with options, set these, and the others as the settings say."""
    from cli.identity import set_limits

    size = None if storage_gigabytes is None else int(storage_gigabytes * 1e9)
    limits = {
        "executionsAtOnce": executions,
        "executionsADay": daily_executions,
        "storageBytes": size,
        "queriesAtOnce": queries,
    }
    changes = limits if reset or any(limit is not None for limit in limits.values()) else None
    return lambda connection: set_limits(connection, organization, changes)


@orgs.command("list")
@call_service
def list_organizations() -> ServiceCall:
    """List the organizations."""
    from cli.identity import list_organizations

    return lambda connection: list_organizations(connection)
