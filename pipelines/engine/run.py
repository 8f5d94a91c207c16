"""One run of a plan: its coordination server, its folders, its counts and checks."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import islice
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from pipelines.contract.context import RunContext
from pipelines.contract.report import RunResult
from pipelines.contract.request import OUTPUT, Figures, Target
from pipelines.coordination.messages import Counts, FailedPage, FetchTally
from pipelines.coordination.server import Coordinator
from pipelines.engine.frontier import describe_bounded
from pipelines.engine.history import Transition
from pipelines.engine.result_checks import CheckResult, check_required_selectors, find_empty_selectors
from pipelines.engine.walk import Engine
from pipelines.errors import RunError
from pipelines.extract.pagination import describe_cut
from pipelines.filesystem import delete_folder
from pipelines.incremental.known_pages import load_known_pages, write_known_pages
from pipelines.incremental.selection import PageCounts, PageSelection, select_pages
from pipelines.language.engines import EngineName
from pipelines.language.formats import Mode
from pipelines.login import LOGIN_VARIABLE, find_login
from pipelines.models.budget import Budget, Usage
from pipelines.models.model_choice import choose_model
from pipelines.models.options import ModelOptions
from pipelines.planning.past import CheckContext, format_rows
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import LinkStage, Sink

if TYPE_CHECKING:
    from pipelines.inference.repairs import DriftReport
    from pipelines.inference.server import InferenceServer

_log = logging.getLogger(__name__)
_MAX_KINDS = 5  # of failed pages in an error
_GONE, _SITEMAP = (404, 410), "sitemap"


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Calls of the language model, the pages that each of the means served, and the pages by id of proven selectors.

    `hosts` are the calls by host.
    """

    calls: Usage
    served: Mapping[str, int]
    selectors: Mapping[str, int]
    hosts: Mapping[str, Usage]


class Run:
    """The state that both runners need for one run of a plan. Use as a context manager.

    `since` is the time in milliseconds at which the run began, and `engine` builds its rows. An incremental run has
    `page_counts` once its rows are chosen, and `has_new_pages` if its folder of known pages was written. `get_counts`,
    `get_preview` and `check_results` may be used by other threads. The tasks of the run get the variables of
    `environment`.
    """

    def __init__(
        self,
        plan: Plan,
        context: RunContext | None = None,
        preview_rows: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.plan = plan
        self.context = context or RunContext()
        self.since = int(time.time() * 1000)
        self.preview_rows = preview_rows
        self._environment = os.environ if environment is None else environment
        fetch, login = self.context.fetch, find_login(plan.options.login, self._environment)
        if login:
            cache = replace(self.context.cache, secrets=(*self.context.cache.secrets, *login.secrets))
            fetch, self.context = login.add_to(fetch), replace(self.context, cache=cache)
        own = {name: value for name, value in (environment or {}).items() if name != LOGIN_VARIABLE}
        self.coordinator = Coordinator(fetch, preview_rows, self.context.bind, own)
        self.coordinator.session.save(login.cookies if login else ())
        self.context = replace(self.context, fetch=self.coordinator.options)
        self.engine: Engine[Any] | None = None
        self._engines: list[EngineName] = []
        self._check_results: tuple[CheckResult, ...] = ()
        self.page_counts: PageCounts | None = None
        self.has_new_pages = False
        self._inference: InferenceServer | None = None
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        if self.plan.uses_model:
            self._inference = self.coordinator.inference = self._open_inference()
            self._resources.callback(self._inference.close)
        self._resources.enter_context(self.coordinator)
        self.context = replace(self.context, endpoint=self.coordinator.endpoint)
        if self.context.cache.enabled:
            cache = replace(self.context.cache, private=self._open_folder("pages"))
            self.context = replace(self.context, cache=cache)
        self.context = replace(self.context, downloads=self._open_folder("files"))
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def _open_inference(self) -> InferenceServer:
        from pipelines.inference.server import InferenceServer  # here, because few pipelines have prompts
        from pipelines.inference.store import SelectorStore, read_lock_file
        from pipelines.models.client import HostLedger, ModelClient

        options, fetch = self.plan.options.model or self.context.model or ModelOptions(), self.context.fetch
        model = choose_model(
            self._environment, options.provider, options.name, fetch.allow_networks, fetch.own_endpoints
        )
        budgets = [Budget("the execution", options.max_calls, options.max_tokens, options.max_cost)]
        if self.context.allowance is not None:
            budgets.append(self.context.allowance.open_budget())
        lock = self.context.locked_selectors
        locked = read_lock_file(lock) if lock else ()
        store = SelectorStore(self.context.selectors, locked, self.context.has_own_selectors)
        return InferenceServer(store, HostLedger(ModelClient(model, budgets), options) if model else None)

    @property
    def model_usage(self) -> ModelUsage | None:
        """The cost of the language model and the hits so far; None for a run without prompts."""
        if self._inference is None:
            return None
        inference = self._inference
        return ModelUsage(inference.usage, inference.count_served(), inference.count_pages(), inference.list_hosts())

    def list_drift(self) -> Sequence[DriftReport]:
        """Return the drifted fields of proven selectors that were found so far."""
        return self._inference.list_drift() if self._inference else ()

    def _open_folder(self, name: str) -> str:
        """Return the address of a folder that all tasks reach, and which is deleted with the run."""
        if self.context.scratch is None:
            folder = TemporaryDirectory(prefix=f"spindle-{name}-", ignore_cleanup_errors=True)
            return self._resources.enter_context(folder)
        address = f"{self.context.scratch}/{name}"
        self._resources.callback(_delete_scratch, address)
        return address

    @property
    def check_results(self) -> tuple[CheckResult, ...]:
        """How the checks of the output ended, once they have run."""
        return self._check_results

    def describe_engines(self) -> str:
        """Return the engines that have run the plan so far, like `local, then spark`."""
        return ", then ".join(self._engines)

    def set_engine(self, engine: Engine[Any]) -> None:
        """Go on with this engine."""
        self.engine = engine
        self._engines.append(engine.name)

    def get_counts(self) -> dict[str, Counts]:
        """Return the counts so far by step key."""
        counted = {key: Counts(rows=rows) for key, rows in self.engine.get_counts().items()} if self.engine else {}
        return counted | self.coordinator.get_counts()

    def get_preview(self, step: str) -> Iterable[Mapping[str, Any]]:
        """Return the first rows of a step that a pass produces, or that it shows, at most `preview_rows`."""
        shown = self.engine.shown.get(step) if self.engine else None
        return self.coordinator.get_preview(step) if shown is None else shown[: self.preview_rows]

    @property
    def resumed_after(self) -> Step | None:
        """The step whose rows were computed by an earlier attempt; null where the run began from the start."""
        return self.engine.resumed_after if self.engine else None

    def list_failed_pages(self) -> Sequence[FailedPage]:
        """Return the first pages that could not be fetched."""
        return self.coordinator.list_failed_pages()

    def list_answers(self) -> Sequence[tuple[FetchTally, Sequence[str]]]:
        """Return the counts of pages by status and reason, with the first addresses of those that have failed."""
        return self.coordinator.list_answers()

    def list_blocking_hosts(self) -> Sequence[tuple[str, int, int]]:
        """Return the hosts that block a large share of their pages, with the numbers of pages and of blocked ones."""
        return self.coordinator.list_blocking_hosts()

    def choose_pages(self, found: pa.Table) -> PageSelection:
        """Return which pages an incremental run writes, of those that `group_digests` has found."""
        known = self.context.known
        return select_pages(
            found,
            self.coordinator.seen.build_table(),
            load_known_pages(known.earlier if known else None),
            has_keys=bool(self.plan.options.incremental and self.plan.options.incremental.keys),
            left_out=self.coordinator.count_left_out(),
        )

    def keep_pages(self, selection: PageSelection) -> None:
        """Write the known pages of the job after this run, and log the counts."""
        self.page_counts = selection.counts
        _log.info("%s", selection.counts, extra={"fields": asdict(selection.counts)})
        for url in self.coordinator.list_gone_pages():
            _log.warning("a known page is gone, its rows stay", extra={"fields": {"url": url}})
        if self.context.known and selection.known is not None:
            write_known_pages(self.context.known.folder, selection.known)
            self.has_new_pages = True

    def keeps_earlier(self, rows: int) -> bool:
        """Return whether an incremental run without new rows leaves the output's dataset as it is."""
        target = self.context.targets.get(OUTPUT, Target())
        return self.page_counts is not None and not rows and target.exists and target.format == self.plan.output.format

    def find_gap(self) -> str | None:
        """Return why rows may be missing that the source has, None after a run that has covered it.

        Pages that are gone (404, 410) are not missing. A step with as many rows as its limit may have had more.
        """
        counts, options = self.get_counts(), self.plan.options
        if options.incremental:
            return "incremental runs leave out known pages"
        if self.context.limit is not None:
            return "the execution has a limit"
        if self.resumed_after is not None:
            return "it goes on after an earlier attempt, of whose pages some may have failed"
        if forbidden := self.coordinator.get_fetch_totals().forbidden:
            return f"robots.txt forbids {forbidden:,} of its addresses"
        faults = [each for each, _ in self.list_answers() if each.reason]
        failed, gone = (
            sum(each.pages - each.optional for each in faults if (each.status in _GONE) is is_gone)
            for is_gone in (False, True)
        )
        if failed:
            return f"{failed:,} {'page' if failed == 1 else 'pages'} could not be fetched"
        for step in self.plan.steps:
            found = counts.get(step.key, Counts())
            most = step.stage.capabilities.max_rows if step.stage else None
            if most is not None and found.rows + gone >= most:  # links beyond the limit were not followed
                return f"the limit in line {step.line} was reached"
            if step.name == _SITEMAP:  # a part of it that cannot be read is only a warning
                return f"parts of the sitemap in line {step.line} may be missing"
            if found.cut:
                return describe_cut(found.cut, options.max_pages, step.line)
            if found.bounded:
                return describe_bounded(step, found.bounded)
            explores = isinstance(step.stage, LinkStage) and step.stage.max_depth is not None
            if explores and options.max_pages is not None and found.rows >= options.max_pages:
                return f"maxPages ({options.max_pages:,}) was reached in line {step.line}"
        return None

    def build_transition(self) -> Transition:
        """Return how the rows become states of the output's history."""
        target = self.context.targets.get(OUTPUT, Target())
        return Transition(self.plan.output, target, self.context.accepted_at, self.find_gap())

    def check_existing(self) -> None:
        """Raise RunError when the output or a save stage must not replace the rows that there are."""
        if self.plan.output.mode is Mode.HISTORY and self.plan.output.own_path and self.context.saves_folder is None:
            raise RunError("the output's mode history needs the rows of earlier executions, which only the service has")
        if self.plan.output.mode is Mode.ERROR and self._has_output():
            raise RunError("the output has rows already, and its mode is error")
        for step in self.plan.steps:
            if (
                isinstance(step.stage, Sink)
                and step.stage.mode is Mode.ERROR
                and self.context.has_rows(step.stage.path)
            ):
                sentence = f"line {step.line}: '{step.stage.path}' has rows already, and the mode is error"
                raise RunError(sentence, step.line)

    def _has_output(self) -> bool:
        path = self.plan.output.own_path if self.context.saves_folder is None else None
        return self.context.targets.get(OUTPUT, Target()).exists or (path is not None and self.context.has_rows(path))

    @property
    def keeps_output(self) -> bool:
        """Whether the output's dataset has rows already, which its mode keeps instead of those of this run."""
        return self.plan.output.mode is Mode.IGNORE and self.context.targets.get(OUTPUT, Target()).exists

    @property
    def check_context(self) -> CheckContext:
        """The context of this run's checks; a run of a part of the rows is not compared with earlier executions."""
        if self.context.limit is not None:
            return CheckContext(self.context.limit, uncompared="this one has a limit")
        if self.plan.options.incremental is not None:
            return CheckContext(uncompared="this one is incremental")
        return CheckContext(past=self.context.past)

    def list_drops(self, result: RunResult) -> list[str]:
        """Return sentences about datasets that the run replaces by less than half of their rows."""
        if self.context.limit is not None:
            return []
        written = [(each.path, each.mode, each.rows) for each in result.saved]
        if result.output:
            written.append((OUTPUT, self.plan.output.mode, result.output.rows))
        drops: list[str] = []
        for path, mode, rows in written:
            earlier = self.context.targets.get(path, Target()).rows or 0
            if mode is Mode.OVERWRITE and 2 * rows < earlier:
                name = f"'{path}'" if path else "the output"
                drops.append(f"{name} has {format_rows(rows)}, fewer than half of the last version's {earlier:,}")
        return drops

    def build_figures(self, rows: int) -> Figures | None:
        """Return what later executions are compared with; None where the run is of a part of the rows."""
        if self.context.limit is not None or self.plan.options.incremental is not None:
            return None
        filled: dict[str, float] = {}
        for result in self._check_results:
            count = result.figures.get("filled")
            if isinstance(count, int) and rows:
                filled[result.call.check.list_columns()[0]] = count / rows
        return Figures(rows, filled)

    def check_result(self, measure: Callable[[], tuple[CheckResult, ...]]) -> None:
        """Raise RunError when a required selector found nothing or is in doubt, or a check of the output fails.

        The latter names the selectors that explain it. `measure` is called after the selectors are checked.
        """
        drift = self._inference.check_drift() if self._inference else ()
        check_required_selectors(self.plan, self.get_counts())
        if faults := [str(each) for each in drift if not each.is_repaired and self._requires(each)]:
            raise RunError("; ".join(faults))
        self._check_results = results = measure()
        for note in (each for each in results if each.note):
            _log.info("%s", note)
        if failed := [str(each) for each in results if each.failed]:
            empty = find_empty_selectors(self.plan, self.get_counts())
            raise RunError("; ".join([*failed, *(str(found) for found, cause in empty if found is cause)]))
        if self._inference and self.context.limit is None:
            self._inference.keep_baselines()

    def _requires(self, report: DriftReport) -> bool:
        """Return whether a stage requires the field of a report."""
        prompt, field = report.record.prompt, report.drift.field
        return any(each.stage is not None and each.stage.requires_answer(prompt, field) for each in self.plan.steps)

    def check_failures(self) -> None:
        """Raise RunError when more of the distinct URLs failed than the pipeline allows."""
        fetches, allowed = self.coordinator.get_fetch_totals(), self.plan.options.max_failure_ratio
        if fetches.forbidden and not fetches.urls and allowed < 1:
            raise RunError(
                f"robots.txt forbids all {fetches.forbidden} addresses that were to be fetched; "
                "where the site's owner has agreed to it, 'spindle: {robots: ignore}' fetches them all the same"
            )
        if fetches.failed > allowed * fetches.urls:
            examples = "; ".join(f"{url}: {reason}" for url, reason in fetches.examples)
            failed = (each for each, _ in self.list_answers() if each.reason)
            kinds = ", ".join(f"{each.pages} x {each.describe_kind()}" for each in islice(failed, _MAX_KINDS))
            raise RunError(
                f"{fetches.failed} of {fetches.urls} addresses could not be fetched ({kinds}), "
                f"spindle.maxFailureRatio allows {allowed:g}: {examples}"
            )


def _delete_scratch(address: str) -> None:
    try:
        delete_folder(address)
    except OSError:  # the run's rows are there all the same
        _log.warning("temporary files of the run are left in the storage", exc_info=True)
