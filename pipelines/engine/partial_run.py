"""A run that grows over to Spark: the rows so far, and the steps that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipelines.engine.segment import Segment
from pipelines.planning.plan import Step
from pipelines.planning.stage import Export

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Explored:
    """The outputs of the passes of an explore so far, the last of which handed over the links of the explore `key`."""

    records: Sequence[pa.Table]
    key: str


@dataclass(frozen=True, slots=True)
class PartialRun:
    """Rows of a segment whose pass has not begun, or which has `explored` some levels, and the steps after it.

    `since` is the time from which kept pages are fresh, and `passes` the number of those that have run. `exports` are
    rows that the run writes to other systems at its end.
    """

    segment: Segment[pa.Table]
    steps: Sequence[Step]
    since: datetime
    passes: int
    counts: Mapping[str, int]
    shown: Mapping[str, list[dict[str, Any]]]
    explored: Explored | None = None
    exports: Sequence[tuple[Step, Export, pa.Table]] = ()


class GrownOver(Exception):
    """The run is too large for one process; Spark goes on with the `partial_run`."""

    def __init__(self, partial_run: PartialRun, reason: str = "") -> None:
        super().__init__(reason or "the run has grown over to Spark")
        self.partial_run = partial_run
