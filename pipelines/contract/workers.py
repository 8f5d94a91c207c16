"""The types of workers, which stages give the runners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.extract.rows import Row


@dataclass(frozen=True, slots=True)
class BatchWorker:
    """A row function that works on several rows at once: returns the rows that replace a row, for all rows in order.

    Over its time budget, a batch stops after the current row; the rest is resubmitted.
    """

    process: Callable[[Sequence[Row]], Iterable[Iterable[Row]]]
