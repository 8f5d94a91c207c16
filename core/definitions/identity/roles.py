"""Scopes of keys, and the roles of people: named sets of scopes."""

from __future__ import annotations

from collections.abc import Mapping

from core.infra.settings.sign_in import Role

ADMIN, SUPER_ADMIN = "admin", "super_admin"
ORDINARY_SCOPES = frozenset({"etl:read", "etl:write", "etl:execute", "datasets:read", "datasets:write", "jobs:execute"})
SCOPES = ORDINARY_SCOPES | {ADMIN, SUPER_ADMIN}
READING_SCOPES = frozenset({"etl:read", "datasets:read"})
ROLES: Mapping[Role, frozenset[str]] = {
    "viewer": READING_SCOPES,
    "operator": READING_SCOPES | {"etl:execute", "jobs:execute"},
    "editor": ORDINARY_SCOPES,
    "admin": ORDINARY_SCOPES | {ADMIN},
}
