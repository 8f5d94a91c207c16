"""The walk through a plan that both runners share: from steps to segments, passes and exchanges of links."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, ClassVar, Generic

from pipelines.contract.context import RunContext
from pipelines.engine.definition import Pass
from pipelines.engine.frontier import MOST_FAILED
from pipelines.engine.partial_run import GrownOver
from pipelines.engine.segment import Rows, Segment
from pipelines.errors import NeedsSpark, RunError, summarize_error
from pipelines.extract.rows import Link
from pipelines.fetch.requests import RequestTemplate
from pipelines.incremental.options import Tracking
from pipelines.language.columns import ENGINE_COLUMNS, Columns, list_own_columns
from pipelines.language.engines import EngineName
from pipelines.planning.plan import Kind, Plan, Step, find_last_fetches, find_link_limits
from pipelines.planning.planner import check_references
from pipelines.planning.stage import Export, LinkStage, Reset, RowStage, Sink, Source, TableStage

STEP_KEY = re.compile(r"(s\d+_\w+): ")


class Engine(ABC, Generic[Rows]):
    """Turns the steps of one run into rows; a runner defines rows, and how passes and tables work on them."""

    name: ClassVar[EngineName]

    def __init__(self, plan: Plan, context: RunContext) -> None:
        self._since = since = context.cache.since or datetime.now(UTC)
        self._plan = plan
        self._context = replace(
            context, stored={}, saved={}, shown={}, prepared={}, cache=replace(context.cache, since=since)
        )
        self.shown = self._context.shown  # by step key, the rows of stages like echo
        self._incremental = plan.options.incremental
        # of pages that are left out no row counts
        self._link_limits = {} if self._incremental else find_link_limits(plan.steps[:-1], context.limit)
        self._last_fetches = find_last_fetches(plan.steps[:-1]) if self._incremental else frozenset[str]()
        self._passes = 0
        self._columns = plan.columns
        self._last_worker_step: str | None = None
        self._ends_in_pass = False

    def build_rows(self) -> Rows:
        """Return the output rows with the engine's columns, within the run's limit."""
        segment, steps = self._begin()
        for step in steps:
            segment = self._add_step(segment, step)
        if segment is None:
            raise RunError("the plan has no steps")
        self._last_worker_step, self._ends_in_pass = segment.last_worker_step, segment.has_pass
        rows = self._finish(segment, None)
        if not segment.has_pass and not self._plan.keeps_failures(self._plan.steps[-1]):
            rows = self._leave_out_failures(rows)
        self._columns = segment.after.with_columns(self._get_kept_columns(segment.after))
        return rows if self._incremental else self.limit_rows(rows)

    def limit_rows(self, rows: Rows) -> Rows:
        """Return the output rows within the run's limit."""
        limit = self._context.limit
        return rows if limit is None else self._take_first(rows, limit)

    def _begin(self) -> tuple[Segment[Rows] | None, Sequence[Step]]:
        """Return the rows to begin with, if there are any, and the steps that are left."""
        return None, self._plan.steps[:-1]

    @property
    def columns(self) -> Columns:
        """The output's columns."""
        return self._columns

    @property
    def last_worker_step(self) -> str | None:
        """The step whose rows are the output when a pass produces them; None for rows of tables."""
        return self._last_worker_step

    @property
    def ends_in_pass(self) -> bool:
        """Whether a pass produces the output rows, so that they are in the order of its tasks."""
        return self._ends_in_pass

    def select_preview(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the output's columns of the first rows of `last_worker_step`, within the run's limit."""
        return [{name: row.get(name) for name in self._columns} for row in islice(rows, self._context.limit)]

    def _get_kept_columns(self, columns: Columns) -> tuple[tuple[str, str], ...]:
        """Return the engine's columns that the pipeline keeps, with their types."""
        kept = self._plan.options.keep_columns
        return tuple((name, ENGINE_COLUMNS[name]) for name in kept if name not in tuple(columns))

    def _add_step(self, segment: Segment[Rows] | None, step: Step) -> Segment[Rows] | None:
        stage = step.stage
        if segment and isinstance(stage, Source | Reset) and self._plan.discards_effects(step):
            self._compute(self._finish(segment, None))
        if isinstance(stage, Source):
            return self._load(step, stage)
        if isinstance(stage, LinkStage) and stage.max_depth is None:
            return self._follow(segment, step, stage)
        if isinstance(stage, Reset):
            return None
        if isinstance(stage, TableStage | Sink | Export):
            return self._apply_table_stage(segment or Segment(self._create_empty(), step.key, Columns()), step, stage)
        if segment is None:
            raise RunError(f"{step.title} has no rows to work on")
        if isinstance(stage, LinkStage):
            if segment.has_one_page and (wanted := self._link_limits.get(step.key)) is not None:
                if self._plan.keeps_failures(step):
                    segment.max_pages = max(wanted, 1)
                else:
                    segment.wanted_pages = max(wanted, 1)
            segment.changes = self._plan.count_changes(step)
            before = segment.after
            segment.add(step.key, stage, self._build_request(stage, before), self._track(step, stage, before))
        elif isinstance(stage, RowStage):
            segment.add(step.key, stage)
        return segment

    def _load(self, step: Step, stage: Source) -> Segment[Rows]:
        with self._locate_errors(step):
            rows, columns = self._load_source(stage)
        self._check_references_after(step, columns)
        if stage.gives_page:
            links = self._exchange(self._rename(rows, "_requestedUrl"))
            request, changes = self._build_request(stage, columns), self._plan.count_changes(step)
            segment = Segment(links, step.key, columns, fetches=True, request=request, changes=changes)
            segment.tracking, segment.fetching = self._track(step, stage, Columns()), stage.fetching
            return segment
        return Segment(self._count_rows(step, rows), step.key, columns)

    def _follow(self, segment: Segment[Rows] | None, step: Step, stage: LinkStage) -> Segment[Rows]:
        if segment is None:
            with self._locate_errors(step):
                links = stage.list_seeds(self._context)
            return self._fetch(self._create_seeds(links), Columns(), step, stage, is_one=len(links) < 2)
        links = self._finish(segment, (step.key, stage))
        following = self._fetch(links, segment.after, step, stage)
        following.more = segment.more
        return following

    def _fetch(
        self, links: Rows, columns: Columns, step: Step, stage: LinkStage, is_one: bool = False
    ) -> Segment[Rows]:
        """Begin a segment with the pages of the links, or of those that suffice for a later limit."""
        wanted = self._link_limits.get(step.key)
        if wanted is not None and self._plan.keeps_failures(step):
            links, wanted = self._take_first(links, wanted), None
        rows = links if is_one or wanted is not None else self._exchange(links)
        changes = self._plan.count_changes(step)
        following = Segment(rows, step.key, columns, in_one_task=is_one, wanted=wanted, changes=changes)
        return following.fetch_links(stage, self._build_request(stage, columns), self._track(step, stage, columns))

    def _track(self, step: Step, stage: LinkStage | Source, before: Columns) -> Tracking | None:
        """Return how the step treats known pages; None where it requests all pages and they give no rows.

        A page that has not changed gives no row. Where rows have columns from `before` it, other than those of its
        address, it is requested in full: these may have changed.
        """
        known = self._context.known
        if self._incremental is None or known is None or step.key not in self._last_fetches:
            return None
        how, explores = stage.fetching, isinstance(stage, LinkStage) and stage.max_depth is not None
        is_followed, is_plain = explores or how.pagination is not None, how.browsing is None and how.file_limit is None
        has_others = before.open or not {*list_own_columns(before)} <= {*stage.list_references()}
        return Tracking(
            job=known.job,
            known=known.earlier,
            recheck_seconds=self._incremental.recheck_seconds,
            asks_all=is_followed,
            has_validators=bool(self._incremental.keys) and is_plain and not (is_followed or has_others),
        )

    def _build_request(self, stage: LinkStage | Source, columns: Columns) -> RequestTemplate | None:
        return self._plan.build_request(stage, columns, self._context.cache.secrets)

    def _finish(self, segment: Segment[Rows], links: tuple[str, LinkStage] | None) -> Rows:
        """Run the segment's pass, and infer columns that a transform did not declare."""
        rows, keeps_failures = segment.rows, links is not None or self._keeps_failures(segment)
        is_open = segment.after.open
        if segment.has_pass or links is not None:
            wanted, most_pages, hides = segment.wanted, self._plan.options.max_pages, not (keeps_failures or is_open)
            task = segment.build_pass(self._context, links, most_pages, wanted is not None or not hides, hides)
            if wanted is None:
                rows = self._run(task, segment)
            else:
                supply = self._build_supply(task, segment)
                rows = supply(wanted)
                has_types = not (is_open or segment.after.json_names)
                segment.more = supply if has_types and not task.get_explorations() else None
            rows = self._leave_out_failures(rows) if wanted is not None and hides else rows
        if not is_open:
            if segment.after.json_names and (segment.has_pass or links is not None):
                rows, segment.after = self._set_json_types(rows, segment.after)
            return rows
        key, fails = segment.find_open_step()
        steps = {step.key: step for step in self._plan.steps}
        with self._locate_errors(steps[key]):
            rows, segment.after = self._infer_columns(rows, segment.after, steps[key], fails)
        self._check_references_after(steps[segment.stages[-1][0]], segment.after)
        return rows if keeps_failures else self._leave_out_failures(rows)

    def _build_supply(self, task: Pass, segment: Segment[Rows]) -> Callable[[int], Rows]:
        """Return a function that runs a pass over so many next links, and over others where rows are failures.

        The rows of a failed page are left out in the end, so that they do not count toward the limit. Once the links
        are used up, the stage before is called for more.
        """
        links, before, failed_before = self._keep(segment.rows), segment.more, 0
        taken: Rows | None = None

        def fetch(wanted: int) -> Rows:
            nonlocal links, taken, failed_before
            parts, missing, number = list[Rows](), wanted, wanted
            while True:
                following = self._take_first(links, number, taken)
                try:
                    rows = self._keep(self._run(task, replace(segment, rows=self._exchange(following))))
                except GrownOver as grown:
                    raise GrownOver(replace(grown.partial_run, segment=segment.with_rows(links))) from None
                parts.append(rows)
                count, failed = self._count_failures(rows)
                if count == 0:
                    further = before(missing) if before else None
                    if further is None or self._count_failures(further)[0] == 0:
                        return self._concatenate(parts)
                    links = self._keep(self._concatenate([links, further]))
                    continue
                taken = following
                missing -= min(number, count) - failed
                failed_before = failed_before + failed if failed == count else 0
                if missing <= 0 or failed_before >= MOST_FAILED:
                    return self._concatenate(parts)
                number = min(2 * number, MOST_FAILED) if failed == count else missing

        return fetch

    def _keeps_failures(self, segment: Segment[Rows]) -> bool:
        """Return whether rows with an error and without values stay after the segment."""
        step = next(step for step in self._plan.steps if step.key == segment.last_step)
        has_columns = segment.after.open or bool(segment.after.types)
        return not has_columns or self._plan.keeps_failures(step)

    @property
    def passes(self) -> int:
        """The number of passes that have a name."""
        return self._passes

    def _check_references_after(self, step: Step, columns: Columns) -> None:
        check_references(self._plan.steps[self._plan.steps.index(step) + 1 :], columns)

    def _name_pass(self, task: Pass) -> Pass:
        """Return the pass with a name that is unique in the run."""
        self._passes += 1
        return replace(task, name=f"{self._passes}.{task.enters}")

    @contextmanager
    def _locate_errors(self, step: Step) -> Generator[None]:
        """Name the step in errors."""
        try:
            yield
        except RunError as error:
            kind = NeedsSpark if isinstance(error, NeedsSpark) else RunError
            where = f"line {step.line}: " if step.line else ""
            raise kind(f"{where}{step.title}: {error}", step.line) from error

    @contextmanager
    def _locate_pass(self, enters: str) -> Generator[None]:
        """Name the stage and its line in errors of a pass."""
        try:
            yield
        except Exception as error:
            if (interrupt := _find_interrupt(error)) is not None:
                raise interrupt from None
            if isinstance(error, RunError) and error.line is not None:  # a pass before this one has failed
                raise
            unexpected = f"a worker failed: {type(error).__name__}: {summarize_error(error)}"
            sentence = str(error) if isinstance(error, RunError) else unexpected
            raise RunError(*locate_failure(self._plan, sentence, {enters})) from error

    @property
    def resumed_after(self) -> Step | None:
        """The step whose rows an earlier attempt has computed, and the first of which this run has the rows."""
        return None

    def get_counts(self) -> dict[str, int]:
        """Return the numbers of rows of finished steps that are not part of a pass, by step key."""
        return {}

    @abstractmethod
    def _load_source(self, stage: Source) -> tuple[Rows, Columns]: ...

    @abstractmethod
    def _create_seeds(self, links: Sequence[Link]) -> Rows:
        """Return a row for every address of a stage that begins a pipeline; invalid ones have an `_error`."""

    @abstractmethod
    def _create_empty(self) -> Rows: ...

    @abstractmethod
    def _rename(self, rows: Rows, column: str) -> Rows:
        """Return the rows with this column as their links."""

    @abstractmethod
    def _exchange(self, links: Rows) -> Rows:
        """Make equal links neighbours, in document order."""

    def _take_first(self, rows: Rows, number: int, after: Rows | None = None) -> Rows:
        """Return the first rows in document order, of those that follow the rows `after`."""
        raise NotImplementedError

    def _keep(self, rows: Rows) -> Rows:
        """Return rows that are computed once, however often they are read."""
        return rows

    def _count_failures(self, rows: Rows) -> tuple[int, int]:
        """Return the number of rows, and of those that have an error and no value in any column of their own."""
        raise NotImplementedError

    def _concatenate(self, parts: Sequence[Rows]) -> Rows:
        raise NotImplementedError

    @abstractmethod
    def _compute(self, rows: Rows) -> None:
        """Compute rows that no later step reads, for the effects of their requests."""

    @abstractmethod
    def _count_rows(self, step: Step, rows: Rows) -> Rows:
        """Count the rows of a step that runs outside passes."""

    @abstractmethod
    def _apply_table_stage(
        self, segment: Segment[Rows], step: Step, stage: TableStage | Sink | Export
    ) -> Segment[Rows]:
        """Run the segment's pass, then the stage on all of its rows."""

    @abstractmethod
    def _leave_out_failures(self, rows: Rows) -> Rows:
        """Return the rows without those that have an error and no value in any column of their own."""

    @abstractmethod
    def _infer_columns(self, rows: Rows, columns: Columns, step: Step, fails: bool) -> tuple[Rows, Columns]:
        """Return the rows with the columns that a transform did not declare; `fails` ends the run for other types."""

    @abstractmethod
    def _set_json_types(self, rows: Rows, columns: Columns) -> tuple[Rows, Columns]:
        """Return the rows with types for columns of values of JSON, which all rows together show."""

    @abstractmethod
    def _run(self, task: Pass, segment: Segment[Rows]) -> Rows:
        """Run a pass and the levels of its explores over the segment's rows."""


def _find_interrupt(error: BaseException) -> BaseException | None:
    """Return the Ctrl-C or SIGTERM that ended a pass, when closing the pass then raised this error."""
    cause = error.__context__
    if isinstance(cause, Exception | GeneratorExit):
        return _find_interrupt(cause)
    return cause


def locate_failure(
    plan: Plan, sentence: str, begun: Collection[str], failing: Sequence[Step] = ()
) -> tuple[str, int | None]:
    """Return the sentence of a failed pass with the location of its stage, and the line.

    A sentence of StageFailed begins with the key of the step. Otherwise it is one of the `failing` steps or, without
    any, one from the last that has `begun` in a worker.
    """
    key = STEP_KEY.match(sentence)
    if key and (step := next((step for step in plan.steps if step.key == key[1]), None)):
        return _add_location(sentence[key.end() :], [step])
    return _add_location(sentence, failing or _list_possible_steps(plan, begun))


def _add_location(sentence: str, steps: Sequence[Step]) -> tuple[str, int | None]:
    """Return the sentence with the location of one step, or of the first and the last of several, and its line."""
    if not steps:
        return sentence, None
    first, last = steps[0], steps[-1]
    if first is last:
        return f"{first.location}: {sentence.removeprefix(f'{first.name}: ')}", first.line
    return f"lines {first.line} to {last.line} ({first.name} to {last.name}): {sentence}", first.line


def _list_possible_steps(plan: Plan, begun: Collection[str]) -> list[Step]:
    """Return the steps from the last one that has begun in a worker."""
    last = max((number for number, step in enumerate(plan.steps) if step.key in begun), default=0)
    return [step for step in plan.steps[last:] if step.kind is not Kind.OUTPUT]
