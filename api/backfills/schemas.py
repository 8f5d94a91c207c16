"""Partitions and backfills as JSON."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record
from core.lifecycle.backfills.models import BackfillProgress


class PartitionRecord(Record):
    key: str
    """Its key, which is the value of the parameter and of the column; of two dimensions joined by `|`."""
    state: str
    """PRESENT in the dataset, MISSING, RUNNING, or FAILED where its newest execution has failed."""
    rows: int | None
    """Its rows in the dataset, also after a later execution has failed; null where it is not there."""
    written_by: str | None
    """Id of the execution that wrote these rows."""
    execution_id: str | None
    """Id of its newest execution; null before the first one."""
    execution_state: str | None
    """State of that execution."""
    error_message: str | None
    """Why that execution failed; null unless it has."""


class BackfillPartitionRecord(Record):
    key: str
    """Its key."""
    state: str
    """State of its execution; WAITING before it has one, REFUSED where it cannot be executed, SKIPPED by a cancel."""
    execution_id: str | None
    error_message: str | None
    """Why it was refused, or its execution failed."""


class BackfillRecord(Record):
    id: str
    """Id of the backfill."""
    job_id: str
    state: str
    """RUNNING, then COMPLETED, FAILED where a partition has no completed execution, or CANCELLED."""
    counts: dict[str, int]
    """Numbers of partitions by their state."""
    created_at: datetime
    completed_at: datetime | None


class BackfillDetails(BackfillRecord):
    partitions: list[BackfillPartitionRecord]
    """Its partitions, in order."""


def build_backfill(found: BackfillProgress) -> BackfillRecord:
    return BackfillRecord.from_row(found.backfill, counts=dict(found.counts))


def build_backfill_details(found: BackfillProgress) -> BackfillDetails:
    partitions = [BackfillPartitionRecord.model_validate(each) for each in found.partitions]
    return BackfillDetails.from_row(found.backfill, counts=dict(found.counts), partitions=partitions)
