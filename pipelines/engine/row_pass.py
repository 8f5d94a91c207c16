"""The rows of one pass over one partition: pages for links, and the rows that the stages make of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, islice, repeat
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from pipelines.contract.workers import Tools
from pipelines.engine.definition import Pass
from pipelines.engine.frontier import Emit, Exploration, ExploreStep, PendingWriters
from pipelines.engine.output import Batch, Entry, PassOutput
from pipelines.engine.progress import ProgressReporter
from pipelines.engine.stage_chain import Flush, chain_stages
from pipelines.extract.pagination import PageChains, build_describer
from pipelines.extract.rows import NOTHING, Fetched, Row
from pipelines.fetch import Fetcher, Page
from pipelines.fetch.files import FileFolder, FileName, FileNotKept
from pipelines.fetch.urls import list_spellings
from pipelines.incremental.options import Tracking

if TYPE_CHECKING:
    from pipelines.incremental.tracker import PageTracker


AT_ONCE = 4  # requests of a trial: pages beyond the first rows are fetched in vain


class PageBudget:
    """The pages that a trial may still request: one at first, for a quick first row, and then a few at once."""

    def __init__(self, pages: int) -> None:
        self.left = pages

    def fetch(
        self,
        fetch: Callable[[Iterable[tuple[str, list[Row]]]], Iterator[Row]],
        requests: Iterable[tuple[str | None, list[Row]]],
        chains: PageChains | None = None,
    ) -> Iterator[Row]:
        """Yield the rows with the pages of their links, and those without, in document order."""
        requests = self._take(requests)
        for size in repeat(1) if chains else chain((1, 2), repeat(AT_ONCE)):
            due = [*islice(requests, size)]
            if not due:
                return
            rows = [row for link, rows in due if link is None for row in rows]
            rows += fetch((link, rows) for link, rows in due if link is not None)
            yield from sorted(rows, key=attrgetter("ordinal"))
            while chains and (following := [*self._take(chains.take())]):
                yield from fetch((link, rows) for link, rows in following if link is not None)

    def _take(self, requests: Iterable[tuple[str | None, list[Row]]]) -> Iterator[tuple[str | None, list[Row]]]:
        each = iter(requests)
        while self.left > 0 and (request := next(each, None)):
            self.left -= request[0] is not None
            yield request


def process_entries(
    task: Pass,
    entering: Iterator[Entry],
    output: PassOutput[Batch],
    reporter: ProgressReporter,
    tools: Tools,
    fetcher: Fetcher | None,
    budget: PageBudget | None = None,
) -> Iterator[Batch]:
    """Yield the output of a pass as the pages of its links arrive; without a `fetcher` there are none to fetch.

    With a `budget`, the rows are in document order, and each is finished before the next pages are requested.
    """
    pending = PendingWriters()
    enter, flushes, explore = chain_stages(task, output, pending, reporter, tools)
    reporter.switch(reporter.get_step(task.enters))
    if explore and budget:
        explore.expect_order()
    if explore and explore.key == task.enters:
        pending.append(explore.load(entering))
        yield from _drain_writers(output, pending)
    else:
        rows = _fetch_rows(task, entering, reporter, fetcher, budget) if fetcher else _read_rows(entering, reporter)
        yield from _process_rows(rows, enter, flushes, output, pending, budget is not None)
    if explore and fetcher:
        reporter.switch(reporter.get_step(explore.key))
        rows = _follow_links(task, explore, reporter, fetcher, budget)
        yield from _process_rows(rows, explore.enter, flushes, output, pending, budget is not None)
    if not output.is_empty():
        yield output.take()
    reporter.close()


def _process_rows(
    rows: Iterable[Row],
    enter: Emit,
    flushes: Iterable[Flush],
    output: PassOutput[Batch],
    pending: PendingWriters,
    flushes_each: bool,
) -> Iterator[Batch]:
    def flush_stages() -> Iterator[Batch]:
        for flush in flushes:
            flush()
            yield from _drain_writers(output, pending)

    for row in rows:
        enter(row)
        del row
        if pending or output.is_full():
            yield from _drain_writers(output, pending)
        if flushes_each:
            yield from flush_stages()
    yield from flush_stages()


def _drain_writers(output: PassOutput[Batch], pending: PendingWriters) -> Iterator[Batch]:
    """Run pending writers and yield full batches: the rows and links of a page may be a thousand times its size."""
    while pending:
        latest = pending[-1]
        for _ in latest:
            if output.is_full():
                yield output.take()
            if pending[-1] is not latest:
                break
        else:
            pending.remove(latest)
    if output.is_full():
        yield output.take()


def _read_rows(entering: Iterable[Entry], reporter: ProgressReporter) -> Iterator[Row]:
    for _, row in entering:
        reporter.tick()
        if row:
            yield row


def _fetch_rows(
    task: Pass,
    entering: Iterable[Entry],
    reporter: ProgressReporter,
    fetcher: Fetcher,
    budget: PageBudget | None,
) -> Iterator[Row]:
    """Yield the entering rows with the pages of their links, and those without a link."""
    first = next((stage for _, stage in task.stages), None)
    once = isinstance(first, Exploration) and first.level > 0
    without_link: deque[Row] = deque()
    requests: Iterable[tuple[str, list[Row]]] = _group_by_link(entering, without_link, once)
    if task.request and task.request.is_per_row:
        requests = _separate_rows(requests)
    chains, tracker = _create_chains(task), _create_tracker(task, reporter)
    if budget:
        fetch = partial(_fetch_links, task, task.enters, reporter=reporter, fetcher=fetcher, chains=chains)
        yield from budget.fetch(fetch, ((link, [row]) for link, row in entering if row), chains)
        return
    while requests:
        for row in _fetch_links(task, task.enters, requests, reporter, fetcher, tracker, chains):
            yield row
            del row
            while without_link:
                yield without_link.popleft()
        requests = chains.take() if chains else ()
    if chains:
        reporter.get_counts(task.enters).cut += chains.cut
    yield from without_link


def _follow_links(
    task: Pass, explore: ExploreStep, reporter: ProgressReporter, fetcher: Fetcher, budget: PageBudget | None
) -> Iterator[Row]:
    """Yield rows with the pages of the explore's links, level by level, until it has no links or hands them over."""
    tracking = task.get_explorations()[explore.key].tracking
    while links := explore.take_links():
        tracker = _track_level(task, tracking, reporter, explore.is_last_level)
        fetch = partial(_fetch_links, task, explore.key, reporter=reporter, fetcher=fetcher, tracker=tracker)
        yield from budget.fetch(fetch, links) if budget else fetch(links)
        yield from explore.take_held()


def _fetch_links(
    task: Pass,
    step: str,
    links: Iterable[tuple[str, list[Row]]],
    reporter: ProgressReporter,
    fetcher: Fetcher,
    tracker: PageTracker | None = None,
    chains: PageChains | None = None,
) -> Iterator[Row]:
    """Yield the rows of the links with their pages, which count for the step."""
    secrets, progress, since = list_spellings(task.cache.secrets), reporter.get_step(step), task.cache.since
    parser, is_file, name = task.fetching.parser, task.fetching.file_limit is not None, task.fetching.file_name
    links = tracker.select(links) if tracker else links
    for page, rows in fetcher.fetch(links, build_describer(task.request) if task.request else None):
        progress.counts.cached += since is not None and page.fetched_at < since
        if tracker and not tracker.take(page):
            reporter.add_page(progress, page, NOTHING)
            continue
        signs = task.options.blocked_when, task.options.logged_out
        fetched, kept = Fetched.from_page(page, secrets, parser, signs, is_file), {}
        if is_file and task.files:
            fetched, kept = _keep_file(task.files, name, page, fetched)
        elif task.files and page.kept and (pictures := _list_pictures(page.kept)):
            fetched, kept = _keep_pictures(task.files, pictures, fetched)
        fetched = chains.check(page, fetched, rows) if chains else fetched
        reporter.add_page(progress, page, fetched)
        for row in chains.add(page, fetched, rows) if chains else rows:
            arrived = _add_visit(row, page)
            found = fetched
            if kept and task.files and name:
                found, named = _name_file(task.files, kept, name.fill(row.values), fetched)
                arrived = arrived.with_values(named)
            elif kept:
                arrived = arrived.with_values(kept)
            arrived.fetched, arrived.element = found, found.root
            yield arrived
            del row, arrived
        del page, rows, fetched


def _add_visit(row: Row, page: Page) -> Row:
    """Return the row with the values of the visit's actions, and the position of a document in its ordinal."""
    if not page.kept and page.position is None:
        return row
    ordinal = row.ordinal if page.position is None else (*row.ordinal, page.position)
    return Row({**row.values, **(page.kept or {})}, ordinal, row.fetched, None, row.link_text, row.depth)


def _keep_file(
    files: FileFolder, name: FileName | None, page: Page, fetched: Fetched
) -> tuple[Fetched, dict[str, object]]:
    """Store the body of a page; return the page, with an error if that fails, and the columns of the file."""
    if fetched.error:
        return fetched, {}
    try:
        return fetched, files.add(page, named=name is not None)
    except FileNotKept as error:
        return _fail(fetched, error), {}


def _name_file(
    files: FileFolder, values: dict[str, object], name: str, fetched: Fetched
) -> tuple[Fetched, dict[str, object]]:
    """Name the stored file of a row; return the page, with an error if that fails, and the columns of the file."""
    try:
        return fetched, files.name_file(values, name)
    except FileNotKept as error:
        return _fail(fetched, error), {column: None for column in values}


def _list_pictures(kept: Mapping[str, object]) -> dict[str, bytes]:
    return {column: value for column, value in kept.items() if isinstance(value, bytes)}


def _keep_pictures(
    files: FileFolder, pictures: Mapping[str, bytes], fetched: Fetched
) -> tuple[Fetched, dict[str, object]]:
    """Store the pictures of a page; return the page, with an error if that fails, and their paths by column."""
    try:
        return fetched, {column: files.add_picture(body) for column, body in pictures.items()}
    except FileNotKept as error:
        return _fail(fetched, error), {column: None for column in pictures}


def _fail(fetched: Fetched, error: FileNotKept) -> Fetched:
    return replace(fetched, error=str(error), page=None, root=None)


def _create_tracker(task: Pass, reporter: ProgressReporter) -> PageTracker | None:
    """Return the tracker of the pages that enter the pass; None where no page is known."""
    own = task.get_explorations().get(task.enters)
    if own is None:
        return reporter.track(task.tracking, list_spellings(task.cache.secrets))
    return _track_level(task, own.tracking, reporter, own.level >= (own.stage.max_depth or 0))


def _track_level(
    task: Pass, tracking: Tracking | None, reporter: ProgressReporter, is_last: bool
) -> PageTracker | None:
    """Return the tracker of a level of an explore, which requests all pages whose links are followed."""
    level = replace(tracking, asks_all=not is_last) if tracking else None
    return reporter.track(level, list_spellings(task.cache.secrets))


def _create_chains(task: Pass) -> PageChains | None:
    if task.fetching.pagination is None:
        return None
    return PageChains(task.fetching.pagination, task.request is not None and task.request.has_body, task.max_pages)


def _group_by_link(entering: Iterable[Entry], without_link: deque[Row], once: bool) -> Iterator[tuple[str, list[Row]]]:
    """Yield links with all their rows, or only with the first (`once`); equal links are neighbours.

    A visited link precedes its equals and is skipped with them.
    """
    for link, group in groupby(entering, key=itemgetter(0)):
        rows = [*map(itemgetter(1), group)]
        if link is None:
            without_link.extend(filter(None, rows))
        elif all(rows):
            yield link, rows[:1] if once else rows


def _separate_rows(requests: Iterable[tuple[str, list[Row]]]) -> Iterator[tuple[str, list[Row]]]:
    return ((link, [row]) for link, rows in requests for row in rows)
