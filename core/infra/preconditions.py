"""Editions: which state of a record a caller has seen, so that nobody overwrites what another has changed since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import RowMapping, inspect
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session

from core.errors import Conflict, PreconditionFailed
from core.executions.slots import hold_project
from core.infra.repository import lock_organization
from core.tables import Base

ANY = "*"
# no user edits these
COUNTED = frozenset({"active_executions", "execution_count", "failing_since", "latest_execution_id"})
COMPUTED = frozenset({"job_ids", "task_ids", "execution_status"})


def edition(row: Base | RowMapping) -> str:
    """A tag that is another for each state of the record's stored fields; it tells nothing of them."""
    values = row if isinstance(row, RowMapping) else _columns(row)
    text = json.dumps([values[field] for field in _edited(tuple(values))], default=_plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def hold_edition(
    session: Session, organization_id: str, row: Base, expected: Collection[str], project_id: str | None = None
) -> None:
    """Keeps all others from changing the record until the transaction ends, and sees to it that it is as expected.

    Raises PreconditionFailed when it is none of the `expected` editions; no expectation fits all.
    """
    lock_organization(session, organization_id)
    if project_id is not None:
        hold_project(session, project_id)
    try:
        session.refresh(row, with_for_update={"key_share": True})
    except InvalidRequestError as error:
        raise Conflict("This record was removed at the same time.") from error
    if expected and ANY not in expected and edition(row) not in expected:
        raise PreconditionFailed("The record was changed since it was read. Read it again and repeat the change.")


def _columns(row: Base) -> Mapping[str, Any]:
    return {column.key: getattr(row, column.key) for column in inspect(type(row)).column_attrs}


@cache
def _edited(fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(field for field in fields if field not in COUNTED | COMPUTED))


def _plain(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
