"""The checks of a run's result: those of its output, the rows set aside, and selectors that found nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipelines.coordination.messages import Counts
from pipelines.errors import RunError
from pipelines.extract.rows import PageSelector
from pipelines.planning.check import (
    Check,
    CheckCall,
    RowCheck,
    Severity,
    describe_reserved_column,
    find_reserved_column,
)
from pipelines.planning.past import CheckContext
from pipelines.planning.plan import Kind, Plan, Step
from pipelines.planning.stage import LinkStage, Stage


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How a check ended: `fault` is None when it passed, about which a `note` may say more.

    `figures` are the measurements.
    """

    call: CheckCall
    fault: str | None
    figures: Mapping[str, int | float | str] = field(default_factory=dict[str, int | float | str])
    note: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the check fails the run."""
        return self.fault is not None and self.call.check.severity is not Severity.WARN

    @property
    def warns(self) -> bool:
        """Whether the run goes on although rows have failed the check."""
        return bool(self.figures.get("rejected") if self.call.check.sets_aside else self.fault) and not self.failed

    def __str__(self) -> str:
        return f"{self.call.location}: {self.fault or self.note or 'passed'}"


@dataclass(frozen=True, slots=True)
class Rejected:
    """The number of rows that a check has set aside, and the reason for one of them."""

    rows: int = 0
    example: str | None = None


def judge(call: CheckCall, measured: Mapping[str, Any], context: CheckContext) -> CheckResult:
    """Return the result of a check for its measurements, which include the number of rows."""
    figures = {name: each.isoformat() if isinstance(each, datetime) else each for name, each in measured.items()}
    fault = call.check.find_fault(measured, context)
    return CheckResult(
        call,
        fault,
        {name: each for name, each in figures.items() if isinstance(each, int | float | str)},
        call.check.find_note(measured, context) if fault is None else None,
    )


def judge_rejected(call: CheckCall, rejected: Rejected, rows: int) -> CheckResult:
    """Return how a check ended that has set rows aside; `rows` are those before any was."""
    assert isinstance(call.check, RowCheck)  # noqa: S101 - the model of other checks has no such severity
    fault = call.check.find_excess(rejected.rows, rows, rejected.example)
    note = call.check.describe_rejected(rejected.rows, rows, rejected.example) if fault is None else None
    return CheckResult(call, fault, {Check.ROWS: rows, "rejected": rejected.rows}, note)


def list_row_checks(calls: Sequence[CheckCall]) -> list[tuple[int, CheckCall, RowCheck]]:
    """Return the checks that set rows aside, with their positions among all checks."""
    numbered = ((number, call, call.check) for number, call in enumerate(calls))
    return [
        (number, call, check) for number, call, check in numbered if isinstance(check, RowCheck) and check.sets_aside
    ]


def check_columns(call: CheckCall, columns: Iterable[str]) -> None:
    """Raise RunError for a column that the check reads and the output lacks."""
    if missing := call.check.find_missing_columns(columns):
        raise RunError(f"{call.location}: the output has no column '{missing[0]}'", call.node.line)


def check_rejected_columns(calls: Sequence[CheckCall], columns: Sequence[str]) -> None:
    """Raise RunError for an output from which no rows can be set aside."""
    for _, call, _ in list_row_checks(calls):
        check_columns(call, columns)
    if reserved := find_reserved_column(calls, columns):
        raise RunError(f"line {reserved[0].node.line}: {describe_reserved_column(*reserved)}", reserved[0].node.line)


@dataclass(frozen=True, slots=True)
class SelectorCounts:
    """A selector found nothing on `empty` of `pages` pages, and `unfit` values that its column cannot hold."""

    step: Step
    selector: PageSelector
    pages: int
    empty: int
    unfit: int = 0

    @property
    def found_nothing(self) -> bool:
        return 0 < self.pages == self.empty

    def __str__(self) -> str:
        pages = "1 page" if self.pages == 1 else f"{self.pages:,} pages"
        return f"{self.step.location}: {self.selector} found nothing on {self.empty:,} of {pages}"


def list_selector_counts(step: Step, counts: Mapping[str, Counts]) -> list[SelectorCounts]:
    """Return the counts of a step's selectors, once it has read a page."""
    found = counts.get(step.key, Counts())
    if step.stage is None or not found.searched:
        return []
    selectors = zip(step.stage.list_selectors(), found.empty, found.unfit, strict=True)
    return [SelectorCounts(step, selector, found.searched, empty, unfit) for selector, empty, unfit in selectors]


def find_empty_selectors(plan: Plan, counts: Mapping[str, Counts]) -> Iterator[tuple[SelectorCounts, SelectorCounts]]:
    """Yield each selector that found nothing on any page, with the one that explains it.

    Without segments, all that reads inside them finds nothing, links included.
    """
    cause: SelectorCounts | None = None
    for step in plan.steps:
        for found in list_selector_counts(step, counts):
            if found.found_nothing:
                yield found, cause or found
                if found.selector.column is None:
                    cause = cause or found
        if step.kind is Kind.FETCH:
            cause = None


def check_required_selectors(plan: Plan, counts: Mapping[str, Counts]) -> None:
    """Raise RunError when a required selector found nothing, on its pages or because earlier pages had no link to them.

    The error names what found nothing first: a wrong password shows on the page after the form, not on the last one.
    """
    causes = _find_unread_steps(plan, counts)
    for found, cause in find_empty_selectors(plan, counts):
        if found.selector.required:
            causes.setdefault(found.step.key, str(cause))
    for step in plan.steps:
        if step.key in causes:
            raise RunError(causes[step.key])


def _find_unread_steps(plan: Plan, counts: Mapping[str, Counts]) -> dict[str, str]:
    """Return the steps that require a selector and read no page, by key, with the cause before them."""
    unread = dict[str, str]()
    cause, empty, was_read, before = None, None, False, Counts()
    judges_links = plan.options.incremental is None  # else links to known pages are left out
    for step in plan.steps:
        own = counts.get(step.key, Counts())
        if step.kind is Kind.SOURCE:
            cause, empty, was_read = None, None, False
        if cause and not own.searched and _requires(step.stage):
            unread[step.key] = cause
        if step.stage is not None and step.stage.gives_page:
            if own.pages > own.errors:
                cause, empty, was_read = None, None, True
            elif own.pages or (was_read and judges_links and _lacks_links(step.stage, own, before)):
                cause = cause or empty or _describe_lack(step, own)
        elif empty is None:
            empty = next((str(each) for each in list_selector_counts(step, counts) if each.found_nothing), None)
        before = own
    return unread


def _lacks_links(stage: Stage, own: Counts, before: Counts) -> bool:
    """Return whether rows came to a stage that follows links, and none had a link."""
    if not isinstance(stage, LinkStage) or stage.max_depth is not None:
        return False
    return before.rows > 0 and (own.rows > 0 or stage.drops_rows_without_link)


def _describe_lack(step: Step, own: Counts) -> str:
    if own.pages:
        pages = "its page" if own.pages == 1 else f"none of its {own.pages:,} pages"
        return f"{step.location}: {pages} could {'not ' if own.pages == 1 else ''}be read"
    described = f" {step.stage.describe()}" if step.stage else ""
    return f"{step.location}:{described} found no link on the pages before it"


def _requires(stage: Stage | None) -> bool:
    return stage is not None and any(selector.required for selector in stage.list_selectors())
