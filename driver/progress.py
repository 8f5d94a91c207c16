"""The progress of a run: state, counts, columns and preview of the steps of its plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.contract.progress import (
    CheckOutcome,
    FailedPage,
    Failure,
    ModelCalls,
    ModelProgress,
    Progress,
    RequestCount,
    SelectorProgress,
    StageReport,
)
from pipelines.contract.report import RunResult, describe_columns
from pipelines.coordination import messages
from pipelines.coordination.failures import MAX_ADDRESSES
from pipelines.coordination.messages import Counts
from pipelines.engine.frontier import describe_bounded
from pipelines.engine.rendering import describe_rendering
from pipelines.engine.result_checks import CheckResult, SelectorCounts, find_empty_selectors, list_selector_counts
from pipelines.engine.run import Run
from pipelines.extract.pagination import describe_cut
from pipelines.extract.rows import describe_malformed
from pipelines.fetch.blocks import describe_blocking_host
from pipelines.fetch.failures import FailureReason
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.models.budget import Usage
from pipelines.planning.check import Severity
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import LinkStage

if TYPE_CHECKING:
    from pipelines.inference.repairs import DriftReport

_MAX_FAILED_PAGES = 20  # in a report; all are in their file
_FAILURE_FIELDS = ("url", "status", "reason", "message", "attempts")
_PAGE_COLUMNS = ("_requestedUrl", "_status", "_error")


class RunProgress:
    """May be read by several threads. `mask` replaces the secrets in all that comes from the pipeline and its rows.

    The seconds of all steps and of Spark's start add up to those since this object was created.
    """

    def __init__(self, plan: Plan, run: Run, mask: Callable[[Any], Any] = lambda value: value) -> None:
        self._plan = plan
        self._run = run
        self._mask = mask
        self._passes = {step.key: number for number, steps in enumerate(plan.iter_passes()) for step in steps}
        self._end: str | None = None
        self._output = Counts()
        self._preview: list[dict[str, Any]] = []
        self._drops: list[str] = []
        self._columns = {step.key: _get_public_columns(step).types for step in plan.steps}
        self._lock = threading.Lock()
        self._start_seconds = 0.0
        self._is_started = False
        self._pass_seconds = [0.0] * (1 + max(self._passes.values()))
        self._timed_at = time.monotonic()

    @property
    def resumed_after(self) -> str | None:
        """Key of the step whose rows were computed by an earlier attempt."""
        step = self._run.resumed_after
        return step.key if step else None

    def set_started(self) -> None:
        """Note that Spark has started: the time from now on is that of the steps."""
        self._measure(0)
        self._is_started = True

    def set_result(self, result: RunResult) -> None:
        self._output = Counts(rows=result.output.rows if result.output else 0)
        self._preview = result.preview
        self._drops = self._run.list_drops(result)
        if result.output:
            self._columns[self._plan.steps[-1].key] = result.output.columns

    def finish(self, state: str) -> None:
        self.list_stages()  # measures the time of the last steps
        self._end = state

    def list_stages(self) -> list[StageReport]:
        """Return the steps with their states and counts, and columns and previews of completed ones.

        A step that reads pages has `selectors`, each with the pages that it was applied to and those on which it found
        nothing. At its end, it may have `warnings`.
        """
        counts = self._run.get_counts()
        last = self._plan.steps[-1].key
        if self._output.rows or self._end == "COMPLETED":
            counts[last] = self._output
        reached = max((self._passes[key] for key, each in counts.items() if each.has_begun), default=0)
        self._measure(reached)
        seconds = self._divide_seconds(counts)
        stages = [self._build_stage(step, counts, seconds[step.key], reached) for step in self._plan.steps]
        for number, (step, stage) in enumerate(zip(self._plan.steps, stages, strict=True)):
            is_final = self._end or stage.state == "COMPLETED"
            if is_final and (warnings := self._find_warnings(step, counts)):
                stages[number] = stage.model_copy(update={"warnings": warnings})
        return stages

    def list_warnings(self) -> list[str]:
        """Return the warnings of all steps, and those about hosts that block pages."""
        counts = self._run.get_counts()
        of_steps = (each for step in self._plan.steps for each in self._find_warnings(step, counts))
        changed = self._mask([str(each) for each in self._run.list_drift()])
        return [*of_steps, *changed, *(sentence for _, sentence in self.list_blocking_hosts())]

    def list_notes(self) -> list[str]:
        """Return what the checks that passed say, such as why they were not compared with earlier executions.

        Another note is about the templates whose pages the browser has rendered.
        """
        rendering = {name: text for each in self._run.get_counts().values() for name, text in each.rendering.items()}
        notes = [str(each) for each in self._run.check_results if each.note and not each.warns]
        return self._mask([*notes, *([describe_rendering(rendering)] if rendering else ())])

    def _find_warnings(self, step: Step, counts: Mapping[str, Counts]) -> list[str]:
        """Return sentences about selectors that found nothing on any page, cut paginations, traps, and malformed pages.

        Those of the output are about checks that only warn, about rows that were set aside, and about datasets that
        lose most of their rows.
        """
        if step is self._plan.steps[-1]:
            return self._mask([*(str(each) for each in self._run.check_results if each.warns), *self._drops])
        empty = find_empty_selectors(self._plan, counts)
        found_nothing = self._mask([str(found) for found, cause in empty if found is cause and found.step is step])
        of_step = counts.get(step.key, Counts())
        if of_step.malformed[0]:
            found_nothing.insert(0, describe_malformed(*of_step.malformed))
        if of_step.bounded:
            found_nothing.insert(0, describe_bounded(step, of_step.bounded))
        if of_step.cut:
            addresses = describe_cut(of_step.cut, self._plan.options.max_pages, step.line)
            found_nothing.insert(0, f"{addresses}; those beyond were not requested")
        return found_nothing

    def _measure(self, reached: int) -> None:
        """Attribute the time since the last call to the start of Spark, or to the pass that the run has reached."""
        with self._lock:
            now = time.monotonic()
            elapsed, self._timed_at = now - self._timed_at, now
            if self._end is not None:
                return
            if self._is_started:
                self._pass_seconds[reached] += elapsed
            else:
                self._start_seconds += elapsed

    def _divide_seconds(self, counts: Mapping[str, Counts]) -> Mapping[str, float]:
        """Divide the time of each pass among its steps by the time that tasks worked at them, which is concurrent."""
        seconds: dict[str, float] = {}
        for number, steps in enumerate(self._plan.iter_passes()):
            worked = {step.key: counts.get(step.key, Counts()).seconds for step in steps}
            if not any(worked.values()):
                worked[steps[0].key] = 1.0
            total = sum(worked.values())
            seconds |= {key: self._pass_seconds[number] * each / total for key, each in worked.items()}
        return seconds

    def build_report(self) -> Progress:
        """Return the fraction of completed steps, Spark's start, all steps, and what else the run has found so far."""
        stages = self.list_stages()
        failed = {page.url: page.message for page in self._run.list_failed_pages()[:_MAX_FAILED_PAGES]}
        parts: dict[str, Any] = {
            "checks": [
                *map(self._describe_result, self._run.check_results),
                *map(self._describe_drift, self._run.list_drift()),
            ],
            "model": self.describe_model(),
            "requests": self.list_requests(),
            "failed_pages": [FailedPage(**self._mask({"url": url, "reason": why})) for url, why in failed.items()],
        }
        return Progress(
            fraction=round(sum(stage.state == "COMPLETED" for stage in stages) / len(stages), 3),
            start_seconds=round(self._start_seconds, 1),
            stages=[stage.without_rows() for stage in stages],
            **{name: part for name, part in parts.items() if part},
        )

    def describe_model(self) -> ModelProgress | None:
        """Return the calls of the language model with their cost, and the pages that each means served."""
        usage = self._run.model_usage
        if usage is None:
            return None
        hosts = {host: _describe_calls(calls) for host, calls in usage.hosts.items()}
        served: dict[str, Any] = {"pages": dict(usage.served), "selectors": dict(usage.selectors)}
        return ModelProgress(**_describe_calls(usage.calls).model_dump(), **served, hosts=hosts)

    def list_requests(self) -> list[RequestCount]:
        """Return the counts of pages by status and, of failed ones, by reason with the first addresses."""
        return [self._describe_answer(answer, urls) for answer, urls in self._run.list_answers()]

    def list_failure_counts(self) -> list[RequestCount]:
        """Return the counts of failed pages by status and reason, those that no means has read included."""
        unread: dict[int | None, dict[str, messages.FailedPage]] = {}
        for page in self._run.list_failed_pages():
            if page.reason == FailureReason.UNREAD:
                unread.setdefault(page.status, {}).setdefault(page.url, page)
        shown = (
            self._describe_answer(
                messages.FetchTally(status, FailureReason.UNREAD, len(pages)), [*pages][:MAX_ADDRESSES]
            )
            for status, pages in unread.items()
        )
        return [*(each for each in self.list_requests() if each.reason), *shown]

    def list_failed_pages(self) -> list[Failure]:
        """Return the first pages that could not be fetched, with their stages and lines."""
        lines = {step.key: step.line for step in self._plan.steps}
        return [
            Failure(**self._mask_fields(page, _FAILURE_FIELDS), stage=page.step, line=lines.get(page.step))
            for page in self._run.list_failed_pages()
        ]

    def list_blocking_hosts(self) -> list[tuple[str, str]]:
        """Return the hosts that block a large share of their pages, and advice for them."""
        return [
            (host, self._mask(describe_blocking_host(host, pages, blocked)))
            for host, pages, blocked in self._run.list_blocking_hosts()
        ]

    def _build_stage(self, step: Step, all_counts: Mapping[str, Counts], seconds: float, reached: int) -> StageReport:
        key, counts = step.key, all_counts.get(step.key, Counts())
        state = self._get_state(step, reached)
        more: dict[str, Any] = {"cached": counts.cached} if counts.cached else {}
        if selectors := list_selector_counts(step, all_counts):
            more["selectors"] = [self._describe_selector(each) for each in selectors]
        if state == "COMPLETED":
            rows = self._preview if key == self._plan.steps[-1].key else self._list_first_rows(key)
            more |= {"columns": describe_columns(self._columns[key]), "preview": self._mask(rows)}
        return StageReport(
            key=key,
            title=step.title,
            state=state,
            rows=counts.rows,
            pages=counts.pages,
            errors=counts.errors,
            seconds=round(seconds, 1),
            **more,
        )

    def _list_first_rows(self, key: str) -> list[dict[str, Any]]:
        """Return the step's first rows, where Python workers make them, with its public columns."""
        names = [name for name, _ in self._columns[key]]
        return [{name: row.get(name) for name in names} for row in self._run.get_preview(key)] if names else []

    def _get_state(self, step: Step, reached: int) -> str:
        number, is_checked = self._passes[step.key], bool(self._run.check_results)  # only after all other work
        if self._end == "COMPLETED" or number < reached or (is_checked and step is not self._plan.steps[-1]):
            return "COMPLETED"
        if number > reached and not is_checked:
            return "PENDING"
        return "FAILED" if self._end else "RUNNING"

    def _describe_selector(self, found: SelectorCounts) -> SelectorProgress:
        own = self._mask_fields(found.selector, ("column", "selector"))
        return SelectorProgress(**own, pages=found.pages, empty=found.empty, unfit=found.unfit)

    def _describe_answer(self, answer: messages.FetchTally, addresses: Sequence[str]) -> RequestCount:
        more = {"addresses": self._mask([*addresses])} if answer.reason else {}
        fields = self._mask_fields(answer, ("status", "reason", "pages", "retries", "cached", "bytes"))
        return RequestCount(**fields, seconds=round(answer.seconds, 3), **more)

    def _mask_fields(self, found: object, names: Sequence[str]) -> dict[str, Any]:
        return self._mask({name: getattr(found, name) for name in names})

    def _describe_result(self, result: CheckResult) -> CheckOutcome:
        return CheckOutcome(
            check=self._mask(str(result.call)),
            severity=result.call.check.severity,
            passed=result.fault is None,
            message=self._mask(result.fault or result.note),
            figures=self._mask(dict(result.figures)),
        )

    def _describe_drift(self, found: DriftReport) -> CheckOutcome:
        now, then = found.drift.now, found.drift.then
        figures = {"doubtful": now.doubted, "compared": now.of, "doubtfulBefore": then.doubted}
        return CheckOutcome(
            check=self._mask(found.title),
            severity=Severity.WARN,
            passed=False,
            message=self._mask(str(found)),
            figures={**figures, "comparedBefore": then.of, "pages": found.pages},
        )


def _describe_calls(calls: Usage) -> ModelCalls:
    return ModelCalls(
        calls=calls.calls, tokens_in=calls.tokens_in, tokens_out=calls.tokens_out, cost=round(calls.cost, 6)
    )


def _get_public_columns(step: Step) -> Columns:
    """Return the columns that people see of a step's rows; of pages also the address, the status and the error."""
    if not isinstance(step.stage, LinkStage):
        return step.columns
    names = [name for name in _PAGE_COLUMNS if name not in tuple(step.columns)]
    return step.columns.with_columns(tuple((name, ENGINE_COLUMNS[name]) for name in names))
