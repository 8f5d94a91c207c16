"""The request of a backfill, and the records of partitions and backfills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from core.infra.changes import LOWER, Changes, example
from core.infra.records import RECORD
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
class PartitionRecord:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
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


@dataclass(frozen=True, slots=True)
class BackfillPartitionRecord:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    key: str
    """Its key."""
    state: str
    """State of its execution; WAITING before it has one, REFUSED where it cannot be executed, SKIPPED by a cancel."""
    execution_id: str | None
    error_message: str | None
    """Why it was refused, or its execution failed."""


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """A backfill and its partitions by the state of their executions; those without one wait, or were refused."""

    backfill: Backfill
    counts: Mapping[str, int]
    partitions: Sequence[BackfillPartitionRecord]
