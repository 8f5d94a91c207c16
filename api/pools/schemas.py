"""Pools as JSON."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record


class PoolRecord(Record):
    id: str
    """Id of the pool."""
    name: str
    """By which jobs name it."""
    limit: int
    """Most executions at once of the jobs that name it."""
    created_at: datetime
    updated_at: datetime
