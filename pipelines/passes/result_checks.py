"""The checks of a run's result: those of its output, and those of selectors that found nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipelines.coordination.server import Counts
from pipelines.errors import RunError
from pipelines.extract.rows import PageSelector
from pipelines.planning.checks import CheckCall, Severity
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


def judge(call: CheckCall, measured: Mapping[str, Any], limit: int | None) -> CheckResult:
    """Return how a check ended for what was measured, the number of rows included."""
    figures = {name: each.isoformat() if isinstance(each, datetime) else each for name, each in measured.items()}
    return CheckResult(
        call,
        call.check.find_fault(measured, limit),
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
