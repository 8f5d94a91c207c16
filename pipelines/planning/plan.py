"""The plan of a pipeline: pure data, read by the engine, by Dagster's translator and by people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from pipelines.errors import Problem
from pipelines.language.columns import Columns
from pipelines.planning.model import Output
from pipelines.planning.options import Options
from pipelines.planning.stage import Stage


class Kind(StrEnum):
    SOURCE = "source"
    FETCH = "fetch"
    ROWS = "rows"
    TABLE = "table"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Step:
    """One visible step; `columns` are those after it, `line` is where it stands in the pipeline's text."""

    key: str
    title: str
    kind: Kind
    columns: Columns
    line: int | None = None
    stage: Stage | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, the last of them the output; `str(plan)` shows them with the passes they run in."""

    steps: tuple[Step, ...]
    output: Output
    options: Options
    warnings: tuple[Problem, ...] = field(default=())

    @property
    def columns(self) -> Columns:
        """Columns of the output."""
        return self.steps[-1].columns

    @property
    def loads(self) -> bool:
        """Whether rows come of files, not of pages alone."""
        return any(step.kind is Kind.SOURCE or (step.stage and step.stage.loads()) for step in self.steps)

    def passes(self) -> Iterator[tuple[Step, ...]]:
        """Steps that run together: a pass begins at a source, a fetch or a table step."""
        current: list[Step] = []
        for step in self.steps:
            if current and step.kind in (Kind.SOURCE, Kind.FETCH, Kind.TABLE):
                yield tuple(current)
                current = []
            current.append(step)
        yield tuple(current)

    def __str__(self) -> str:
        lines: list[str] = []
        for number, steps in enumerate(self.passes(), start=1):
            lines.append(f"pass {number}")
            lines.extend(_lines(steps))
        lines.append(f"columns: {self.columns}")
        return "\n".join(lines)


def _lines(steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        where = f"line {step.line}" if step.line else ""
        yield f"  {step.key:<20} {where:<9} {step.title}".rstrip()
        if step.kind is not Kind.OUTPUT:
            yield f"  {'':<30} -> {step.columns}"


def step_key(number: int, name: str) -> str:
    """`s02_wgetJoin`: unique in the plan, and only of characters that an orchestrator takes."""
    return f"s{number:02d}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
