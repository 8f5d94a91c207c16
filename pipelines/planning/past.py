"""Comparison of a run's figures with those of the last published executions of its job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from pipelines.contract.request import Figures

LEAST, MOST = 3, 100  # executions that a median is taken of
_TOLERANCE = 1e-9  # of products of shares


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The context of a run's checks: its `limit` of rows, and the figures of earlier executions, the newest first.

    `past` is None where a run is not compared, for the reason `uncompared`.
    """

    limit: int | None = None
    past: tuple[Figures, ...] | None = None
    uncompared: str = "only a service knows earlier executions"


@dataclass(frozen=True, slots=True)
class Usual:
    """The median of a figure over the last `number` published executions."""

    median: float
    number: int

    def drops(self, value: float, share: float | None) -> bool:
        """Return whether a value is below the median by more than the share."""
        return share is not None and value < self.median * (1 - share) * (1 - _TOLERANCE)

    def rises(self, value: float, share: float | None) -> bool:
        """Return whether a value is above the median by more than the share."""
        return share is not None and value > self.median * (1 + share) * (1 + _TOLERANCE)


def find_usual(context: CheckContext, over: int, select: Callable[[Figures], float | None]) -> Usual | str:
    """Return the median of a figure over the last executions that have it, or a sentence why there is none."""
    if context.past is None:
        return f"it was not compared with earlier executions: {context.uncompared}"
    found = [value for figures in context.past if (value := select(figures)) is not None][:over]
    if len(found) < LEAST:
        number = f"{len(found)} published {'execution has' if len(found) == 1 else 'executions have'}"
        return f"it was not compared with earlier executions: {number} this figure, and {LEAST} are needed"
    return Usual(median(found), len(found))


def format_share(count: int, rows: int) -> str:
    return f"{count:,} of {format_rows(rows)}"


def format_rows(rows: int) -> str:
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def format_percent(share: float | None) -> str:
    return f"{100 * (share or 0):.6g}%"
