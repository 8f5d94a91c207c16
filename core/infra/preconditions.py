"""ETags and If-Match: a change applies to the state of a record that the caller has read, or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from sqlalchemy import inspect

from core.errors import PreconditionFailed
from core.tables import Base

ANY = "*"
# columns that executions and deliveries change, or that follow from others; a user's edit does not conflict with them
COUNTERS = frozenset(
    {"active_executions", "execution_count", "failing_since", "latest_execution_id", "outline", "package_lock"}
    | {"agreed_enabled", "handled_time", "next_tick_at", "planned_for", "updated_at"}
    | {"next_begin_at", "next_end_at", "next_send_at", "stale_at", "turns"}
)

Value = TypeVar("Value")
Row = TypeVar("Row", bound=Base)


@dataclass(frozen=True, slots=True)
class Versioned(Generic[Value]):
    """A record together with the ETag of its current state."""

    value: Value
    etag: str


def add_etag(row: Row) -> Versioned[Row]:
    return Versioned(row, compute_etag(row))


def compute_etag(row: Base) -> str:
    """Hash the row's columns, apart from counters."""
    fields = sorted(column.key for column in inspect(type(row)).column_attrs if column.key not in COUNTERS)
    text = json.dumps([getattr(row, field) for field in fields], default=_serialize, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def check_etag(row: Base, if_match: Collection[str]) -> None:
    """Raise PreconditionFailed unless the row has one of these ETags; an empty collection sets no condition."""
    if if_match and ANY not in if_match and compute_etag(row) not in if_match:
        raise PreconditionFailed("The record was changed since it was read. Read it again and repeat the change.")


def _serialize(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
