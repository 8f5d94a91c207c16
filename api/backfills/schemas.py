"""Backfills as JSON."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record
from core.lifecycle.backfills.models import BackfillPartitionRecord, BackfillProgress


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
    return BackfillDetails.from_row(found.backfill, counts=dict(found.counts), partitions=[*found.partitions])
