"""The rules of Trino's file-based access control: an organization's user reads its own schema and nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.data.sql.trino.client import TrinoClient
from core.errors import BadInput, Unavailable

READ_CATALOGS = "(hive_ro|delta_ro|iceberg_ro)"
USER_PREFIX = "org_"
REFRESH_SECONDS = 30  # security.refresh-period is to be shorter
POLL_SECONDS = 0.2


def name_user(organization_id: str) -> str:
    """Return the name of an organization in Trino: that of its user and of its schema."""
    return USER_PREFIX + organization_id.replace("-", "")


def build_rules(admin: str) -> dict[str, Any]:
    """Return rules by which the administrator may do everything and all others nothing."""
    user = {"user": admin}
    return {
        "catalogs": [{**user, "catalog": ".*", "allow": "all"}],
        "schemas": [{**user, "owner": True}, {"owner": False}],
        "tables": [{**user, "privileges": ["SELECT", "INSERT", "DELETE", "UPDATE", "OWNERSHIP", "GRANT_SELECT"]}],
        "queries": [{**user, "allow": ["execute", "kill", "view"]}, {"allow": ["execute"]}],
        "impersonation": [{"original_user": admin, "new_user": f"{USER_PREFIX}.*"}],
        "functions": [{**user, "privileges": ["EXECUTE", "GRANT_EXECUTE", "OWNERSHIP"]}],
        "procedures": [{**user, "privileges": ["EXECUTE", "GRANT_EXECUTE"]}],
        "system_session_properties": [{**user, "allow": True}, {"allow": False}],
        "catalog_session_properties": [{**user, "allow": True}, {"allow": False}],
    }


class AccessRules:
    """Adds organizations to the file that Trino reads its rules from; without a file, the operator grants access."""

    def __init__(self, path: Path | None, client: TrinoClient) -> None:
        self._path = path
        self._client = client

    def admit(self, user: str) -> None:
        """Let a user read the schema of its own name; return when Trino knows the rule. Raises Unavailable."""
        if self._path is not None:
            self._add(self._path, user)
            self._wait_until_known(user)  # also of a rule that another process has just added

    def _add(self, path: Path, user: str) -> None:
        with _lock(path):
            rules = json.loads(path.read_text()) if path.exists() else build_rules(self._client.admin)
            if any(rule.get("user") == user for rule in rules["catalogs"]):
                return
            rules["catalogs"].insert(0, {"user": user, "catalog": READ_CATALOGS, "allow": "read-only"})
            table = {"user": user, "catalog": READ_CATALOGS, "schema": user, "privileges": ["SELECT"]}
            rules["tables"].insert(0, table)
            part = path.with_name(f"{path.name}.{os.getpid()}.part")
            part.write_text(json.dumps(rules, indent=1))
            part.replace(path)

    def _wait_until_known(self, user: str) -> None:
        deadline = time.monotonic() + REFRESH_SECONDS
        schemas = f"SELECT 1 FROM hive_ro.information_schema.schemata WHERE schema_name = '{user}'"  # noqa: S608 - an id
        while time.monotonic() < deadline:
            try:
                if self._client.fetch(schemas, user):
                    return
            except BadInput:  # access is denied until the rules are read again
                pass
            time.sleep(POLL_SECONDS)
        sentence = "Trino does not read its access rules again. Set security.refresh-period as docs/sql.md says."
        raise Unavailable(sentence, code="trino-unavailable")


@contextmanager
def _lock(path: Path) -> Generator[None]:
    with path.with_name(f"{path.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
