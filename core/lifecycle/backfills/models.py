"""The request of a backfill, and the records of partitions and backfills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from core.infra.changes import LOWER, Changes, example
from core.tables import Backfill

MAX_BACKFILL_KEYS = 10_000
PERIOD = r"^\d{4}(-\d\d(-\d\d(-\d\d:\d\d)?)?)?$"


class BackfillCreate(Changes):
    """The partitions to execute: a range of periods, or keys; all that have closed where neither is given."""

    model_config = example({"from": "2026-01-01", "to": "2026-01-31"})

    from_: Annotated[str | None, Field(alias="from", pattern=PERIOD)] = None
    """The first period, by its key or the beginning of one."""
    to: Annotated[str | None, Field(pattern=PERIOD)] = None
    """The last period, which is executed too; `2026-01` is the last one of January."""
    keys: Annotated[list[str] | None, Field(max_length=MAX_BACKFILL_KEYS)] = None
    """Keys of partitions, in place of a range."""
    only: Annotated[Literal["missing", "failed"], LOWER] | None = None
    """Execute only those of them that are missing, or whose newest execution has failed."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a job: PRESENT in its dataset, MISSING, RUNNING, or FAILED.

    `execution_id` is its newest execution, and `rows` are those in the dataset, also after a later one has failed.
    """

    key: str
    state: str
    rows: int | None
    written_by: str | None
    execution_id: str | None
    execution_state: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """A backfill and its partitions by the state of their executions; those without one wait, or were refused."""

    backfill: Backfill
    counts: Mapping[str, int]
    partitions: Sequence[BackfillPartition]


@dataclass(frozen=True, slots=True)
class BackfillPartition:
    """A partition of a backfill: WAITING, REFUSED, SKIPPED by a cancel, or the state of its execution."""

    key: str
    state: str
    execution_id: str | None
    error_message: str | None
