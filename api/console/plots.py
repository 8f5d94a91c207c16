"""Plots of a job's executions: one bar for each, as the coordinates of an SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

HEIGHT, STEP, GAP = 60, 12, 3


@dataclass(frozen=True, slots=True)
class Bar:
    """A value of one execution; `x`, `y`, `width` and `height` are in the units of the plot."""

    label: str
    failed: bool
    x: int
    y: float
    height: float
    width: int = STEP - GAP


@dataclass(frozen=True, slots=True)
class Plot:
    """A title, the largest value as text, and a bar for each value, the oldest first."""

    title: str
    largest: str
    bars: Sequence[Bar]
    width: int
    height: int = HEIGHT


def build_plot(title: str, values: Sequence[tuple[float, str, bool]], show: Callable[[float], str]) -> Plot:
    """Return the plot of values with the name of their execution and whether that failed, the oldest first."""
    largest = max((value for value, _, _ in values), default=0)
    bars: list[Bar] = []
    for place, (value, name, failed) in enumerate(values):
        height = max(round(value / largest * HEIGHT, 1), 1.0) if largest and value else 1.0
        bars.append(Bar(f"{name}: {show(value)}", failed, place * STEP, HEIGHT - height, height))
    return Plot(title, show(largest), bars, max(len(bars) * STEP, STEP))
