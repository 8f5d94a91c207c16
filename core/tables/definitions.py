"""Changes of the records that Dagster shows, for the code server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import insert, inspect
from sqlalchemy.orm import Mapped, Session, UOWTransaction, mapped_column

from core.tables.base import Base, Owned, now
from core.tables.cron_jobs import CronJob
from core.tables.datasets import Dataset
from core.tables.identity import Organization
from core.tables.schedules import Schedule
from core.tables.work import Agent, Job, Project

# the columns that definitions depend on, and executions do not change; new and deleted rows always count
COLUMNS: dict[type[Owned | Organization], frozenset[str]] = {
    Organization: frozenset({"slug"}),
    Project: frozenset({"name", "slug", "enabled", "parameters", "cron_schedule"}),
    Job: frozenset(
        {"name", "slug", "description", "agent_id", "input_dataset_id", "parameters", "enabled"}
        | {"tags", "depends_on", "freshness", "partitions", "pools"}
    ),
    Agent: frozenset({"name", "pipeline_yaml", "code", "enabled"}),
    Dataset: frozenset({"job_id", "schema_slug", "slug", "logical_path"}),
    CronJob: frozenset({"name", "namespace", "schedule", "timezone", "url"}),
    Schedule: frozenset({"job_id", "planned_for"}),  # the latter is made of cron expression, timezone and switch
}


class DefinitionChange(Base):
    """One record of which Dagster shows something else since then; ids only grow, also after old rows are deleted."""

    __tablename__ = "definition_changes"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    kind: Mapped[str]
    record_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)


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
