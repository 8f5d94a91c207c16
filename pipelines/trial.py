"""The first rows of a plan in this process, without Spark: its stages up to the first that works on whole tables."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat, takewhile
from operator import attrgetter
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from pipelines.browser.actions import Browsing
from pipelines.browser.factory import create_fetcher
from pipelines.browser.model import BrowserPage, find_missing_browser
from pipelines.contract.context import RunContext
from pipelines.contract.workers import BatchWorker
from pipelines.coordination.client import DriverGone, SharedHostThrottle, connect
from pipelines.coordination.server import Coordinator, Counts
from pipelines.engine.result_checks import SelectorCounts, find_empty_selectors
from pipelines.errors import NeedsSpark, RunError
from pipelines.extract.pagination import PageChains, build_describer
from pipelines.extract.rows import Fetched, Ordinal, PageTally, Row, count_links, place_link
from pipelines.fetch import CrawlOptions, Fetcher, Page
from pipelines.fetch.fetcher import Describe
from pipelines.fetch.files import describe_file
from pipelines.fetch.requests import RequestTemplate
from pipelines.fetch.session import LocalSession
from pipelines.language.columns import Columns
from pipelines.planning.plan import Plan, Step
from pipelines.planning.planner import check_references
from pipelines.planning.stage import LinkStage, Reset, RowStage, Source, TableStage

_BATCH_ROWS = 100
_CONCURRENCY = 4  # requests at once: pages beyond the first rows are fetched in vain


@dataclass(slots=True)
class TrialCounts:
    """Counts of one step."""

    tally: PageTally
    rows: int = 0
    pages: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    malformed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


class TrialPages:
    """Pages that trials have fetched, kept in memory so that a later trial does not fetch them again.

    `session` has their cookies, and `changes` is how many steps before have changed what sites answer.
    """

    def __init__(self) -> None:
        self.session = LocalSession()
        self._pages: dict[tuple[int, str, str], Page] = {}
        self._changes = 0

    def select_after(self, changes: int) -> TrialPages:
        """Return the pages that were fetched after as many changes."""
        selected = copy(self)
        selected._changes = changes
        return selected

    def get(self, url: str, variant: str = "") -> Page | None:
        return self._pages.get((self._changes, variant, url))

    def is_fresh(self, page: Page) -> bool:
        return True

    def put(self, page: Page, variant: str = "") -> None:
        if page.ok:
            self._pages[self._changes, variant, page.requested_url] = page

    def tick(self) -> None:
        pass


@dataclass(slots=True)
class _Request:
    """A row that waits for its page; `results` are the rows with it, one for each snapshot of a trace.

    `chains` has the pages that follow.
    """

    url: str | None
    row: Row
    results: list[Row]
    chains: PageChains | None = None


class Trial:
    """Runs the steps of a plan that work row by row over its first `max_pages` pages. Use as a context manager.

    `steps` are those steps, and `next_step` is the first that is left out because it works on whole tables. Rows are
    yielded as their pages arrive, in the order of a run; stages pull the rows that they need, so few pages are fetched.
    """

    def __init__(self, plan: Plan, options: CrawlOptions, max_pages: int, pages: TrialPages | None = None) -> None:
        self.steps = tuple(takewhile(_is_row_wise, plan.steps[:-1]))
        self.next_step: Step | None = next((step for step in plan.steps[len(self.steps) : -1]), None)
        self.counts = {step.key: TrialCounts(_create_tally(step)) for step in self.steps}
        self.pages_left = max_pages
        self._missing_browser = find_missing_browser() if plan.uses_browser else None
        self._max_explored = plan.options.max_pages
        self._options = replace(options, concurrency=min(options.concurrency, _CONCURRENCY))
        self._pages = pages or TrialPages()
        self._plan = plan
        self._session = self._pages.session if options.session else None
        self._discarded: list[Iterator[Row]] = []
        self._coordinator = Coordinator(self._options)
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        self._resources.enter_context(self._coordinator)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

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
        tallies = {key: each.tally for key, each in self.counts.items() if each.tally.pages}
        counts = {
            key: Counts(searched=each.pages, empty=(*each.count_empty(),), unfit=(*each.count_unfit(),))
            for key, each in tallies.items()
        }
        return [found for found, cause in find_empty_selectors(self._plan, counts) if found is cause]

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
        if self._missing_browser:
            raise RunError(self._missing_browser)
        rows: Generator[Row] | None = None
        for step in self.steps:
            if rows and isinstance(step.stage, Source | Reset):
                self._discarded.append(rows)
                rows = None
            if not isinstance(step.stage, Reset):
                rows = self._count_rows(step, self._apply(step, rows))
        if rows is None:
            return iter(())
        self._resources.callback(rows.close)
        return rows

    def _apply(self, step: Step, rows: Iterator[Row] | None) -> Iterator[Row]:
        stage = step.stage
        if isinstance(stage, RowStage):
            return _apply_row_stage(stage, rows or iter(()), self.counts[step.key].tally)
        if isinstance(stage, Source):
            loaded = self._begin(self._load_rows(step, stage))
            return self._fetch(step, stage, loaded) if stage.gives_page else (row for _, row in loaded)
        if isinstance(stage, TableStage) and stage.keeps_rows:
            with _locate_errors(step):
                add = stage.build_row_function(self._create_context())
            return _add_columns(step, add, rows or iter(()))
        if not isinstance(stage, LinkStage):
            raise RunError(f"{step.title} does not work row by row")
        if rows is None:
            return self._fetch(step, stage, self._begin(self._load_seeds(step, stage)))
        if stage.max_depth is None:
            return self._fetch(step, stage, _iter_links(stage, rows, self.counts[step.key].tally))
        return self._explore(step, stage, rows)

    def _begin(self, links: Iterator[tuple[str | None, Row]]) -> Iterator[tuple[str | None, Row]]:
        """Yield the links of a source or address, once the requests for the rows that it discards are sent."""
        while self._discarded:
            deque(self._discarded.pop(0), maxlen=0)
        yield from links

    def _count_rows(self, step: Step, rows: Iterator[Row]) -> Generator[Row]:
        counts = self.counts[step.key]
        for row in rows:
            counts.rows += 1
            yield row

    def _load_rows(self, step: Step, source: Source) -> Iterator[tuple[str | None, Row]]:
        """Yield the rows of a source with the addresses of their pages, if it has any; raise RunError."""
        with _locate_errors(step):
            loaded, columns = source.load_locally(self._create_context(most_links=self.pages_left))
        check_references(self._plan.steps[self._plan.steps.index(step) + 1 :], columns)
        for batch in loaded.to_batches(_BATCH_ROWS):
            for values in batch.to_pylist():
                yield values.get("_requestedUrl"), Row({name: values[name] for name in columns}, (*values["_ordinal"],))

    def _load_seeds(self, step: Step, stage: LinkStage) -> Iterator[tuple[str | None, Row]]:
        with _locate_errors(step):
            links = stage.list_seeds(self._create_context(most_links=self.pages_left))
        for number, link in enumerate(links):
            yield link.url, Row({}, ()).follow_link(link, (number,))

    def _create_context(self, most_links: int | None = None) -> RunContext:
        """Return the context of stages that read files; sources may stop at as many addresses as `most_links`."""
        folder = self._resources.enter_context(TemporaryDirectory(prefix="spindle-files-"))
        endpoint = self._coordinator.endpoint
        return RunContext(fetch=self._options, endpoint=endpoint, downloads=folder, most_links=most_links)

    def _explore(self, step: Step, stage: LinkStage, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield every page once, those that the first row leads to as they arrive, and then the others.

        Pages are fetched level by level, since any row may lead to a page, and a page belongs to the nearest.
        """
        find_links = count_links(stage.build_worker(), self.counts[step.key].tally)
        deepest = stage.max_depth or 0
        request = self._plan.build_request(stage, self._list_columns_before(step))
        gives_once = stage.browsing is None and (request is None or not request.is_per_row)
        visited, reached, later = set[str](), set[str](), list[Row]()
        root: Ordinal | None = None
        level: list[tuple[str, Row]] = []

        def add_links(row: Row, depth: int) -> None:
            for position, link in enumerate(find_links(row) if depth < deepest else (), start=1):
                if link.url:
                    level.append((link.url, row.follow_link(link, place_link(row.ordinal, depth, position), depth + 1)))

        def is_repeated(row: Row) -> bool:
            """Return whether a redirect led to a page that another link has led to as well."""
            url = row.fetched.url
            if url is None or url == row.fetched.requested_url or row.fetched.error or not gives_once:
                return False
            is_known = url in visited or url in reached
            reached.add(url)
            return is_known

        for row in rows:
            url = row.fetched.requested_url
            is_whole_page = row.element is not None and row.element is row.fetched.root
            if is_whole_page and url in visited:  # another row of the same page
                continue
            first = row.set_depth(0, (*row.ordinal, 0))
            if url:
                visited.add(url)
            is_repeated(first)
            add_links(first, 0)
            root = root or row.ordinal
            if row.ordinal == root:
                yield first
            else:
                later.append(first)
        for depth in range(1, deepest + 1):
            found = dict[str, Row]()
            for url, row in level:
                if url not in visited and url not in reached:
                    found.setdefault(url, row)
            if not found:
                break
            level.clear()
            if self._max_explored is not None:
                found = dict(list(found.items())[: max(self._max_explored - len(visited), 0)])
            visited.update(found)
            for row in self._fetch(step, stage, iter(found.items())):
                if is_repeated(row):
                    continue
                add_links(row, depth)
                if root and row.ordinal[: len(root)] == root:
                    yield row
                else:
                    later.append(row)
        yield from sorted(later, key=attrgetter("ordinal"))

    def _fetch(self, step: Step, stage: LinkStage | Source, links: Iterator[tuple[str | None, Row]]) -> Iterator[Row]:
        """Yield the rows of the links with their pages, in order; a row without a link has no page.

        The first page is fetched before all others, for a quick first row.
        """
        template = self._plan.build_request(stage, self._list_columns_before(step))
        describe = _build_describer(template) if template else None
        pagination, browsing = (stage.pagination, stage.browsing) if isinstance(stage, LinkStage) else (None, None)
        with ExitStack() as resources:
            pages = None if browsing else self._pages.select_after(self._plan.count_changes(step))
            fetcher = resources.enter_context(self._create_fetcher(browsing, pages, resources))
            for size in chain((1, 2), repeat(_CONCURRENCY)):
                requests = list(islice(self._iter_requests(links), size))
                if not requests:
                    return
                due = ((request.url, request) for request in requests if request.url is not None)
                for page, request in fetcher.fetch(due, describe):
                    row = self._take_page(step, request.row, page)
                    request.results.append(row)
                    if pagination:
                        in_body = template is not None and template.has_body
                        request.chains = PageChains(pagination, in_body, self._max_explored)
                        request.chains.add(page, row.fetched, [request.row])
                for request in requests:
                    yield from request.results
                    if request.chains:
                        yield from self._follow_pages(step, request.chains, fetcher, template)

    def _follow_pages(
        self, step: Step, chains: PageChains, fetcher: Fetcher, template: RequestTemplate | None
    ) -> Iterator[Row]:
        """Yield rows with the pages after the first page of an address, one after another."""
        describe = build_describer(template) if template else None
        while self.pages_left > 0 and (due := chains.take()):
            self.pages_left -= 1
            for page, rows in fetcher.fetch(due, describe):
                row = self._take_page(step, rows[0], page, chains, rows)
                chains.add(page, row.fetched, rows)
                yield row

    def _iter_requests(self, links: Iterator[tuple[str | None, Row]]) -> Iterator[_Request]:
        """Iterate over the requests for the links, until as many pages are requested as the trial may fetch."""
        while self.pages_left > 0 and (link := next(links, None)):
            url, row = link
            self.pages_left -= url is not None
            yield _Request(url, row, [row] if url is None else [])

    def _create_fetcher(self, browsing: Browsing | None, pages: TrialPages | None, resources: ExitStack) -> Fetcher:
        connection = connect(self._coordinator.endpoint, "trial")
        if connection is None:
            raise DriverGone
        resources.callback(connection.finish)
        throttle = SharedHostThrottle(connection, self._options)
        return create_fetcher(self._options, browsing, throttle, pages, self._session)

    def _list_columns_before(self, step: Step) -> Columns:
        position = self.steps.index(step)
        return self.steps[position - 1].columns if position else Columns()

    def _take_page(
        self, step: Step, row: Row, page: Page, chains: PageChains | None = None, rows: list[Row] | None = None
    ) -> Row:
        """Return the row with the page, and count it."""
        link = step.stage if isinstance(step.stage, LinkStage) else None
        parser, file_limit = (link.page_parser, link.file_limit) if link else (None, None)
        signs, counts = self._options.blocked_when, self.counts[step.key]
        fetched = Fetched.from_page(page, (), parser, signs, file_limit is not None)
        fetched = chains.check(page, fetched, rows or []) if chains else fetched
        counts.pages += 1
        if fetched.malformed:
            counts.malformed.append((page.requested_url, fetched.malformed))
        if fetched.error:
            counts.failures.append((page.requested_url, fetched.error))
        arrived = page.add_to(row) if isinstance(page, BrowserPage) else replace(row)
        if file_limit and not fetched.error:
            arrived = arrived.with_values(describe_file(page))
        arrived.fetched, arrived.element = fetched, fetched.root
        return arrived


def _build_describer(template: RequestTemplate) -> Describe[_Request]:
    return lambda url, request: template.build(url, request.row.value, request.row.ordinal)


@contextmanager
def _locate_errors(step: Step) -> Generator[None]:
    """Name the step in errors."""
    try:
        yield
    except RunError as error:
        hint = "; `spindle run` has Spark" if isinstance(error, NeedsSpark) else ""
        raise RunError(f"{step.location}: {error}{hint}", step.line) from error


def _is_row_wise(step: Step) -> bool:
    if isinstance(step.stage, Source):
        return step.stage.gives_page or not step.stage.needs_spark(Columns())
    if isinstance(step.stage, TableStage):
        return step.stage.keeps_rows
    return isinstance(step.stage, RowStage | LinkStage | Reset)


def _create_tally(step: Step) -> PageTally:
    return PageTally(len(step.stage.list_selectors()) if step.stage else 0)


def _apply_row_stage(stage: RowStage, rows: Iterator[Row], tally: PageTally) -> Iterator[Row]:
    work = stage.build_tallied_worker(tally)
    for row in rows:
        if isinstance(work, BatchWorker):
            made: Iterable[Row] = chain.from_iterable(work.process([row]))
        else:
            made = work(row)
        yield from made


def _add_columns(step: Step, add: Callable[[Row], Row], rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        with _locate_errors(step):
            added = add(row)
        yield added


def _iter_links(stage: LinkStage, rows: Iterator[Row], tally: PageTally) -> Iterator[tuple[str | None, Row]]:
    """Yield each link of the rows with the row for its page; a row without links once, unless the stage drops it."""
    find_links = count_links(stage.build_worker(), tally)
    for row in rows:
        position = 0
        for position, link in enumerate(find_links(row), start=1):
            yield link.url, row.follow_link(link, (*row.ordinal, position))
        if position == 0 and not stage.drops_rows_without_link:
            yield None, row.keep_without_link()
