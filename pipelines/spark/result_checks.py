"""The checks of a run's result: those of its output, and those of selectors that found nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.coordination.server import Counts
from pipelines.errors import RunError, summarize_error
from pipelines.extract.rows import PageSelector
from pipelines.planning.checks import Check, CheckCall, Severity
from pipelines.planning.plan import Kind, Plan, Step
from pipelines.planning.stage import RowStage


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How a check ended; `fault` is None when it passed, and `figures` are what was measured."""

    call: CheckCall
    fault: str | None
    figures: Mapping[str, int | float | str] = field(default_factory=dict[str, int | float | str])

    @property
    def failed(self) -> bool:
        """Whether the check fails the run."""
        return self.fault is not None and self.call.check.severity is Severity.ERROR

    def __str__(self) -> str:
        return f"{self.call.location}: {self.fault}" if self.fault else f"{self.call.location}: passed"


def run_checks(calls: Sequence[CheckCall], output: DataFrame, limit: int | None) -> tuple[CheckResult, ...]:
    """Compute the checks over the output rows, which are read once; raise RunError for one that cannot be computed."""
    if not calls:
        return ()
    aggregates = [F.count(F.lit(1)).alias(Check.ROWS)]
    for number, call in enumerate(calls):
        if missing := [name for name in call.check.list_columns() if name not in output.columns]:
            raise RunError(f"{call.location}: the output has no column '{missing[0]}'")
        own = [column.alias(f"{number}.{name}") for name, column in call.check.measure().items()]
        try:
            output.agg(F.lit(1), *own)  # for errors with a line
        except PySparkException as error:
            raise RunError(f"{call.location}: {summarize_error(error)}") from error
        aggregates.extend(own)
    (row,) = output.agg(*aggregates).collect()
    measured = row.asDict()
    return tuple(_judge(number, call, measured, limit) for number, call in enumerate(calls))


def _judge(number: int, call: CheckCall, measured: Mapping[str, Any], limit: int | None) -> CheckResult:
    prefix = f"{number}."
    own = {name.removeprefix(prefix): value for name, value in measured.items() if name.startswith(prefix)}
    own = {Check.ROWS: measured[Check.ROWS], **own}
    figures = {name: each.isoformat() if isinstance(each, datetime) else each for name, each in own.items()}
    return CheckResult(
        call,
        call.check.find_fault(own, limit),
        {name: each for name, each in figures.items() if isinstance(each, int | float | str)},
    )


@dataclass(frozen=True, slots=True)
class SelectorCounts:
    """A selector found nothing on `empty` of `pages` pages."""

    step: Step
    selector: PageSelector
    pages: int
    empty: int

    @property
    def found_nothing(self) -> bool:
        return 0 < self.pages == self.empty

    def __str__(self) -> str:
        pages = "1 page" if self.pages == 1 else f"{self.pages:,} pages"
        return f"{self.step.location}: {self.selector} found nothing on {self.empty:,} of {pages}"


def list_selector_counts(step: Step, counts: Mapping[str, Counts]) -> list[SelectorCounts]:
    """Return the counts of a step's selectors, once it has read a page."""
    found = counts.get(step.key, Counts())
    if not (isinstance(step.stage, RowStage) and found.searched):
        return []
    selectors = zip(step.stage.list_selectors(), found.empty, strict=True)
    return [SelectorCounts(step, selector, found.searched, empty) for selector, empty in selectors]


def find_empty_selectors(plan: Plan, counts: Mapping[str, Counts]) -> Iterator[tuple[SelectorCounts, SelectorCounts]]:
    """Yield each selector that found nothing on any page, with the one that explains it.

    Without segments, all that reads inside them finds nothing.
    """
    cause: SelectorCounts | None = None
    for step in plan.steps:
        if step.kind is Kind.FETCH:
            cause = None
        for found in list_selector_counts(step, counts):
            if found.found_nothing:
                yield found, cause or found
                if found.selector.column is None:
                    cause = cause or found


def check_required_selectors(plan: Plan, counts: Mapping[str, Counts]) -> None:
    """Raise RunError when a required selector found nothing on any page that was read."""
    causes = [str(cause) for found, cause in find_empty_selectors(plan, counts) if found.selector.required]
    if causes:
        raise RunError("; ".join(dict.fromkeys(causes)))
