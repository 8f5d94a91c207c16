"""`spindle keys` and `spindle orgs`: the API keys and organizations of a server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cli.client import Connection, connect
from cli.terminal import print_table

KEYS, ORGANIZATIONS = "/auth/api-keys", "/auth/organizations"


def create_key(connection: Connection, name: str, scopes: list[str], days: int | None) -> int:
    """Print only the key, for scripts; the server does not show it again."""
    expires = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    with connect(connection) as client:
        print(client.post(KEYS, {"name": name, "scopes": scopes or None, "expiresAt": expires})["key"])
    return 0


def list_keys(connection: Connection) -> int:
    with connect(connection) as client:
        keys = client.get(KEYS)
    rows = [
        [key["id"], key["name"], " ".join(key["scopes"]), _describe_state(key), key["lastUsedAt"] or "never"]
        for key in keys
    ]
    print_table(["Id", "Name", "Scopes", "State", "Last used"], rows)
    return 0


def revoke_key(connection: Connection, key_id: str) -> int:
    with connect(connection) as client:
        client.delete(f"{KEYS}/{key_id}")
    return 0


def create_organization(connection: Connection, name: str) -> int:
    """Print only the organization's first admin key; the server does not show it again."""
    with connect(connection) as client:
        print(client.post(ORGANIZATIONS, {"name": name})["key"])
    return 0


def list_organizations(connection: Connection) -> int:
    with connect(connection) as client:
        found = client.get(ORGANIZATIONS)
    print_table(
        ["Id", "Name", "Slug", "Created"],
        [[each[key] for key in ("id", "name", "slug", "createdAt")] for each in found],
    )
    return 0


def set_limits(connection: Connection, organization: str, limits: Mapping[str, int | None] | None) -> int:
    """Print the limits of an organization and their use, after setting them if there are any."""
    path = f"/organizations/{organization}/limits"
    with connect(connection) as client:
        found = client.get(path) if limits is None else client.put(path, limits)
    rows = [
        [name, f"{each['used']:,}", "none" if each["limit"] is None else f"{each['limit']:,}"]
        for name, each in found.items()
        if isinstance(each, dict)
    ]
    print_table(["Limit", "Used", "Of"], rows)
    return 0


def _describe_state(key: dict[str, Any]) -> str:
    if key["revokedAt"]:
        return "revoked"
    if key["expiresAt"] is None:
        return "valid"
    expired = datetime.fromisoformat(key["expiresAt"]) <= datetime.now(UTC)
    return f"expired {key['expiresAt']}" if expired else f"valid until {key['expiresAt']}"
