"""Changes of definitions: rows for changes that Dagster shows, and their reader.

Executions change none of the columns below, so they add no rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from sqlalchemy import delete, insert, inspect, select
from sqlalchemy.orm import Session, UOWTransaction

from core.tables import (
    Agent,
    CronJob,
    Dataset,
    DefinitionChange,
    Job,
    Organization,
    Owned,
    Project,
    Schedule,
    now,
)

# the columns that definitions depend on; new and deleted rows always count
COLUMNS: dict[type[Owned | Organization], frozenset[str]] = {
    Organization: frozenset({"slug"}),
    Project: frozenset({"name", "slug", "enabled", "parameters", "cron_schedule"}),
    Job: frozenset({"name", "slug", "description", "agent_id", "input_dataset_id", "parameters", "enabled"}),
    Agent: frozenset({"name", "pipeline_yaml", "code", "enabled"}),
    Dataset: frozenset({"job_id", "schema_slug", "slug", "logical_path"}),
    CronJob: frozenset({"name", "namespace", "schedule", "timezone", "url"}),
    Schedule: frozenset({"job_id", "planned_for"}),  # the latter is made of cron expression, timezone and switch
}
KEEP = timedelta(days=1)
SETTLED_SECONDS = 60.0  # longer than a transaction may take


def record_changes(session: Session, _context: UOWTransaction) -> None:
    """Add rows for the changed records of a flush; an `after_flush` event of SQLAlchemy's sessions."""
    rows = [{"kind": type(row).__tablename__, "record_id": row.id} for row in _iter_changed(session)]
    if rows:
        session.connection().execute(insert(DefinitionChange), rows)


def _iter_changed(session: Session) -> Iterator[Owned | Organization]:
    for row in (*session.new, *session.deleted):
        if type(row) in COLUMNS:
            yield row
    for row in session.dirty:
        columns = COLUMNS.get(type(row))
        if columns and any(inspect(row).attrs[name].history.has_changes() for name in columns):
            yield row


class ChangeReader:
    """Reports whether there were changes since the last call.

    Transactions may commit in another order than that of their ids, so ids are compared with those already seen, until
    no transaction that took a lower one can be left.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._settled = 0
        self._seen: dict[int, float] = {}

    def has_changes(self, session: Session) -> bool:
        at = self._clock()
        ids = session.scalars(select(DefinitionChange.id).where(DefinitionChange.id > self._settled)).all()
        new = [each for each in ids if each not in self._seen]
        self._seen |= dict.fromkeys(new, at)
        settled = [each for each, seen_at in self._seen.items() if at - seen_at > SETTLED_SECONDS]
        if settled:
            self._settled = max(settled)
            self._seen = {each: seen_at for each, seen_at in self._seen.items() if each > self._settled}
        return bool(new)


def delete_old_changes(session: Session) -> None:
    session.execute(delete(DefinitionChange).where(DefinitionChange.created_at < now() - KEEP))
