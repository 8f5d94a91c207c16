"""The first rows of a plan in this process, without Spark: its stages up to the first that works on whole tables.

Those are run where all their rows are at hand: no stage before them has fetched a page, and DuckDB or Arrow runs them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar, Self

from pipelines.browser.factory import create_fetcher
from pipelines.browser.model import find_missing_browser
from pipelines.contract.context import RunContext
from pipelines.contract.questions import QuestionReader
from pipelines.contract.request import Files
from pipelines.contract.workers import Tools
from pipelines.coordination.client import DriverGone, SharedHostThrottle, connect
from pipelines.coordination.messages import Counts, FailedPage
from pipelines.coordination.server import Coordinator
from pipelines.coordination.services import ServiceClient
from pipelines.engine.definition import Pass
from pipelines.engine.frontier import Exploration
from pipelines.engine.output import Entry, RowOutput
from pipelines.engine.progress import ProgressReporter
from pipelines.engine.rendering import add_rendering
from pipelines.engine.result_checks import SelectorCounts, find_empty_selectors
from pipelines.engine.row_pass import AT_ONCE, PageBudget, process_entries
from pipelines.engine.segment import Segment, build_next_pass, fetches_alike, follow_links
from pipelines.engine.walk import Engine
from pipelines.errors import NeedsSpark, RunError
from pipelines.extract.rows import Link, PageTally, Row
from pipelines.fetch import CrawlOptions, Fetcher, Page
from pipelines.fetch.files import FileFolder
from pipelines.fetch.session import LocalSession
from pipelines.language.columns import Columns
from pipelines.login import find_login
from pipelines.page_cache.options import CacheOptions
from pipelines.planning.plan import Plan, Step
from pipelines.planning.stage import Export, LinkStage, Reset, RowStage, Sink, Source, TableStage
from pipelines.transforms.schema import fold_names

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.browser.actions import Browsing

_BATCH_ROWS = 100
Rows = Iterator[tuple[str | None, Row]]  # with the links of their pages, which the next pass fetches


class TrialPages:
    """Pages that trials have fetched, kept in memory so that a later trial does not fetch them again.

    `session` has their cookies, and `changes` is how many steps before have changed what sites answer.
    """

    has_answers: ClassVar[bool] = False  # of services
    are_complete = False  # so that a page which is not among them must not be requested

    def __init__(self) -> None:
        self.session = LocalSession()
        self._pages: dict[tuple[int, str, str], Page] = {}
        self._changes = 0

    def select_after(self, changes: int, browsing: Browsing | None = None) -> TrialPages | None:
        """Return the pages that were fetched after as many changes; None for those of the browser, which are not kept.

        Pages that were recorded have those of the browser too.
        """
        return None if browsing else self._select(changes)

    def _select(self, changes: int) -> Self:
        selected = copy(self)
        selected._changes = changes
        return selected

    def get(self, url: str, variant: str = "") -> Page | None:
        return self._pages.get((self._changes, variant, url))

    def is_fresh(self, page: Page) -> bool:
        return True

    def refuse(self, url: str) -> str | None:
        return None

    def put(self, page: Page, variant: str = "") -> None:
        if page.ok:
            self._pages[self._changes, variant, page.requested_url] = page

    def tick(self) -> None:
        pass

    def list_pages(self) -> list[Page]:
        """Return the pages that were fetched, in their order."""
        return [*self._pages.values()]


class TrialEngine(Engine[Rows]):
    """Yields the rows of a plan's `steps` as their pages arrive; later steps pull the rows that they need."""

    def __init__(
        self,
        plan: Plan,
        steps: Sequence[Step],
        context: RunContext,
        reporter: ProgressReporter,
        budget: PageBudget,
        pages: TrialPages,
    ) -> None:
        super().__init__(plan, context)
        self._link_limits = {}
        self._steps = steps
        self._budget = budget
        self._pages = pages
        self._reporter = reporter

    def _begin(self) -> tuple[Segment[Rows] | None, Sequence[Step]]:
        """Return the rows of the last stage on whole tables, if there is one, and the steps after it."""
        tables = [number for number, step in enumerate(self._steps) if not _is_row_wise(step)]
        if not tables:
            return None, self._steps
        from pipelines.local.engine import LocalEngine  # here, because few trials need Arrow

        end = tables[-1] + 1
        engine = LocalEngine(replace(self._plan, steps=(*self._steps[:end], self._plan.steps[-1])), self._context)
        rows = engine.build_rows()
        return Segment(_iter_rows(rows, engine.columns), self._steps[end - 1].key, engine.columns), self._steps[end:]

    def _load_source(self, stage: Source) -> tuple[Rows, Columns]:
        rows, columns = stage.load_locally(self._context)
        return _iter_rows(rows, columns), columns

    def _create_seeds(self, links: Sequence[Link]) -> Rows:
        return ((link.url, Row({}, ()).follow_link(link, (number,))) for number, link in enumerate(links))

    def _create_empty(self) -> Rows:
        return iter(())

    def _rename(self, rows: Rows, column: str) -> Rows:
        return rows

    def _exchange(self, links: Rows) -> Rows:
        return links

    def _compute(self, rows: Rows) -> None:
        deque(rows, maxlen=0)

    def _count_rows(self, step: Step, rows: Rows) -> Rows:
        return rows

    def _keeps_failures(self, segment: Segment[Rows]) -> bool:
        return True

    def _leave_out_failures(self, rows: Rows) -> Rows:
        return rows

    def _infer_columns(self, rows: Rows, columns: Columns, step: Step, fails: bool) -> tuple[Rows, Columns]:
        return _fold_names(rows), columns

    def _set_json_types(self, rows: Rows, columns: Columns) -> tuple[Rows, Columns]:
        return rows, columns

    def _apply_table_stage(
        self, segment: Segment[Rows], step: Step, stage: TableStage | Sink | Export
    ) -> Segment[Rows]:
        if not isinstance(stage, TableStage):
            raise RunError(f"{step.title} does not work row by row")
        rows = self._finish(segment, None)
        with self._locate_errors(step):
            stage.prepare_locally(replace(self._context, step=step.key))
        return Segment(self._add_columns(step, stage, rows), step.key, stage.infer_columns(segment.after))

    def _add_columns(self, step: Step, stage: TableStage, rows: Rows) -> Rows:
        """Yield each row with the columns that the stage adds to it, from those that it refers to."""
        import pyarrow as pa

        context, names = replace(self._context, step=step.key), stage.list_references()
        for link, row in rows:
            with self._locate_errors(step):
                read = pa.table({name: pa.array([row.value(name)]) for name in names})
                added = stage.apply_locally(read, context).drop_columns([*names])
            yield link, row.with_values(added.to_pylist()[0])

    def _run(self, task: Pass, segment: Segment[Rows]) -> Rows:
        if task.get_explorations():
            return self._explore(task, segment.rows)
        return self._run_pass(task, segment.rows, RowOutput())

    def _explore(self, task: Pass, rows: Rows) -> Rows:
        """Yield the rows that the first address leads to as they arrive, and then the others in document order."""
        if (first := next(rows, None)) is None:
            return
        stages = [stage for _, stage in task.stages]
        explores = [number for number, stage in enumerate(stages) if isinstance(stage, Exploration)]
        widens = any(isinstance(stage, RowStage) and stage.widens for stage in stages[: explores[0]])
        streams = len(explores) == 1 and task.fetching.pagination is None and not widens
        root, later = first[1].ordinal, list[tuple[str | None, Row]]()
        for number, entry in enumerate(self._run_levels(task, chain((first,), rows))):
            if number == 0 or (streams and entry[1].ordinal[: len(root)] == root):
                yield entry
            else:
                later.append(entry)
        yield from sorted(later, key=lambda entry: entry[1].ordinal)

    def _run_levels(self, task: Pass, rows: Rows) -> Rows:
        """Yield the rows of the pass and of all levels of its explores, which see every page once."""
        output, keys = RowOutput(), [*task.get_explorations()]
        alike = fetches_alike(task, build_next_pass(task, keys[0], 1))
        yield from self._run_pass(follow_links(task, keys[0], None, 1) if alike else task, rows, output)
        for key in keys:
            found = output.links.pop(key, [])
            if level := max((level for *_, level in found), default=0):
                following = follow_links(build_next_pass(task, key, level - 1), key, None, 1)
                links = ((link, row if level else None) for link, row, level in found)
                yield from self._run_pass(following, links, output)

    def _run_pass(self, task: Pass, rows: Iterator[Entry], output: RowOutput) -> Rows:
        """Yield the rows of a pass; the links of its explores are in the output then."""
        with ExitStack() as resources, self._locate_pass(task.enters):
            services = None
            if task.asks_services:
                open_cache = partial(nullcontext, self._pages.select_after(task.changes))
                services = ServiceClient(task.options, task.endpoint, task.enters, open_cache, self._pages.has_answers)
                resources.callback(services.close)
            fetcher = self._open_fetcher(task, resources, services) if task.fetches else None
            tools = Tools(PageTally(0), _open_reader() if task.asks_questions else None, services)
            for batch in process_entries(task, rows, output, self._reporter, tools, fetcher, self._budget):
                yield from batch

    def _open_fetcher(self, task: Pass, resources: ExitStack, services: ServiceClient | None) -> Fetcher:
        connection = connect(task.endpoint, task.enters)
        if connection is None:
            raise DriverGone
        resources.callback(connection.finish)
        throttle = SharedHostThrottle(connection, task.options)
        if services:
            services.while_waiting = throttle.poll
        if task.fetching.archive:
            from pipelines.engine.worker import open_archive  # loads Arrow, as the stage has

            archive = resources.enter_context(open_archive(task))
            return resources.enter_context(create_fetcher(task.options, None, throttle, archive))
        session = self._pages.session if task.options.session else None

        def open_fetcher(task: Pass) -> Fetcher:
            browsing = task.fetching.browsing
            pages = self._pages.select_after(task.changes, browsing)
            browsing = None if self._pages.are_complete else browsing  # its pages are there, or refused
            return create_fetcher(task.options, browsing, throttle, pages, session)

        return resources.enter_context(add_rendering(task, open_fetcher, self._reporter))


def _fold_names(rows: Rows) -> Rows:
    spellings: dict[str, str] = {}
    for address, row in rows:
        yield address, row.replace_values(fold_names(row.values, spellings))


def _iter_rows(rows: pa.Table, columns: Columns) -> Rows:
    for batch in rows.to_batches(_BATCH_ROWS):
        for values in batch.to_pylist():
            yield values.get("_requestedUrl"), Row({name: values[name] for name in columns}, (*values["_ordinal"],))


class Trial:
    """Runs the steps of a plan that a trial can run over its first `max_pages` pages. Use as a context manager.

    `steps` are those steps, and `next_step` is the first that is left out because it works on whole tables. Rows are
    yielded as their pages arrive, in the order of a run; stages pull the rows that they need, so few pages are fetched.
    `inputs` are as in a RunContext.
    """

    def __init__(
        self,
        plan: Plan,
        options: CrawlOptions,
        max_pages: int,
        pages: TrialPages | None = None,
        inputs: Mapping[str, Files] | None = None,
    ) -> None:
        self.steps = tuple(_iter_steps(plan))
        self.next_step: Step | None = next((step for step in plan.steps[len(self.steps) : -1]), None)
        self._pages = pages or TrialPages()
        login = None if self._pages.are_complete else find_login(plan.options.login, os.environ)
        if login:
            options = login.add_to(options)
            self._pages.session.save(login.cookies)
        self.secrets = login.secrets if login else ()  # to be masked
        self._options = replace(options, concurrency=min(options.concurrency, AT_ONCE))
        self._plan = plan
        self._inputs = inputs or {}
        self._budget = PageBudget(max_pages)
        self._reporter = ProgressReporter(None)
        self._coordinator = Coordinator(self._options)
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        self._resources.enter_context(self._coordinator)
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def pages_left(self) -> int:
        """The number of pages that may still be requested."""
        return self._budget.left

    @property
    def counts(self) -> dict[str, Counts]:
        """The counts so far by step key."""
        return {step.key: self._reporter.get_counts(step.key) for step in self.steps}

    @property
    def failures(self) -> Sequence[FailedPage]:
        """The pages that could not be fetched so far."""
        return self._reporter.failures

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """The engine columns that the pipeline's output keeps."""
        return self._plan.options.keep_columns

    @property
    def columns(self) -> Columns:
        """The columns of the rows."""
        return self.steps[-1].columns if self.steps else Columns()

    def list_empty_selectors(self) -> list[SelectorCounts]:
        """Return the selectors that found nothing on any page so far, without those that others explain."""
        return [found for found, cause in find_empty_selectors(self._plan, self.counts) if found is cause]

    def iter_shown_rows(self) -> Iterator[Row]:
        """Iterate over the rows that an output would have: without those that have an error and no values."""
        last, columns = self.steps[-1] if self.steps else None, self.columns
        shows_pages = last is None or last.stage is None or last.stage.gives_page
        if last is None or shows_pages or self._plan.keeps_failures(last) or not (columns.open or columns.types):
            return self.iter_rows()
        return (row for row in self.iter_rows() if not row.is_empty_failure(row.values if columns.open else columns))

    def find_rejection(self, row: Row) -> tuple[str, str] | None:
        """Return the check that sets an output row aside, and the reason; raise RunError for a missing column."""
        sets_aside = any(call.check.sets_aside for call in self._plan.checks)
        if not sets_aside or self.next_step is not None or self.columns.open:
            return None
        from pipelines.local.result_checks import find_rejection  # here, because few trials need Arrow

        return find_rejection(self._plan.checks, self._plan.columns, {**row.get_engine_values(), **row.values})

    def iter_rows(self) -> Iterator[Row]:
        """Iterate over the rows; raise RunError."""
        if self._plan.uses_browser and not self._pages.are_complete and (missing := find_missing_browser()):
            raise RunError(missing)
        if not self.steps or isinstance(self.steps[-1].stage, Reset):
            return iter(())
        context = RunContext(
            fetch=self._options,
            cache=CacheOptions(secrets=self.secrets),
            inputs=self._inputs,
            endpoint=self._coordinator.endpoint,
            files=FileFolder("", ""),
            downloads=self._resources.enter_context(TemporaryDirectory(prefix="spindle-files-")),
            most_links=self._budget.left,
            pages=self._pages.select_after(0),
        )
        try:
            rows = TrialEngine(self._plan, self.steps, context, self._reporter, self._budget, self._pages).build_rows()
        except NeedsSpark as error:
            raise RunError(f"{error}; `spindle run` has Spark", error.line) from error
        shown = (row for _, row in rows)
        self._resources.callback(shown.close)
        return shown


def _open_reader() -> QuestionReader:
    from pipelines.inference.page_reader import PageReader  # here, because few trials ask

    return PageReader()


def _iter_steps(plan: Plan) -> Iterator[Step]:
    """Yield the first steps that work row by row, or on the whole rows of files and datasets."""
    before, fetches = Columns(), False
    for step in plan.steps[:-1]:
        fetches = fetches or (step.stage is not None and step.stage.gives_page)
        has_table = isinstance(step.stage, TableStage) and not fetches and not step.stage.needs_spark(before)
        if not has_table and not _is_row_wise(step):
            return
        yield step
        before = step.columns


def _is_row_wise(step: Step) -> bool:
    if isinstance(step.stage, Source):
        return step.stage.gives_page or not step.stage.needs_spark(Columns())
    if isinstance(step.stage, TableStage):
        return step.stage.keeps_rows
    return isinstance(step.stage, RowStage | LinkStage | Reset)
