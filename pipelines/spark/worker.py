"""One pass over one partition in a Python worker: fetch pages for links, extract rows, return rows or more links."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import chain, groupby, islice, repeat
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark import TaskContext

from pipelines.browser.actions import Browsing
from pipelines.browser.factory import create_fetcher
from pipelines.browser.model import BrowserOptions, BrowserPage
from pipelines.coordination.client import DriverGone, SharedHostThrottle, SharedSession, connect
from pipelines.coordination.messages import Endpoint
from pipelines.extract.document import Parser
from pipelines.extract.page_tally import PageTally
from pipelines.extract.pagination import PageChains, Pagination, build_describer
from pipelines.extract.rows import NOTHING, Fetched, Row, place_link
from pipelines.fetch import Fetcher, FetchOptions
from pipelines.fetch.requests import RequestTemplate
from pipelines.fetch.session import LocalSession, Session
from pipelines.fetch.throttle import HostThrottle
from pipelines.fetch.urls import list_spellings
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.page_cache.cache import ExecutionPageCache
from pipelines.page_cache.options import CacheOptions
from pipelines.planning.stage import BatchWorker, LinkStage, RowStage
from pipelines.spark.progress import ProgressReporter, StepCounts
from pipelines.spark.record_batches import PassOutput, RecordBuffer
from pipelines.spark.row_batcher import RowBatcher
from pipelines.spark.schema import LINK, OPEN
from pipelines.transforms.values import loads

Emit = Callable[[Row], object]
Flush = Callable[[], None]
PendingWriters = list[Iterator[None]]  # each step writes one row, or appends a writer for the rows derived from it
_TIMESTAMP = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
_GC_THRESHOLD = 10_000  # new objects; pages and rows form no cycles, and the default of 700 wastes time


@dataclass(frozen=True, slots=True)
class Exploration:
    """One level of an explore within a pass: its pages are of `level`, their links of the next level.

    `columns` are those of the rows before the explore. Its links carry them and have `schema`.
    """

    stage: LinkStage
    columns: Columns
    schema: pa.Schema
    level: int = 0
    request: RequestTemplate | None = None


@dataclass(frozen=True, slots=True)
class Pass:
    """The definition of a pass, as sent to the workers.

    The step `enters` provides rows with the columns `entering`, after fetching their links if `fetches`. The `stages`,
    with their step keys, are applied in order. With `links`, the output are links for the next pass. The output has
    `columns` and `schema`.
    """

    name: str
    enters: str
    fetches: bool
    entering: Columns
    stages: tuple[tuple[str, RowStage | Exploration], ...]
    links: LinkStage | None
    columns: Columns
    schema: pa.Schema
    options: FetchOptions
    cache: CacheOptions
    endpoint: Endpoint | None
    browsing: Browsing | None = None
    request: RequestTemplate | None = None
    pagination: Pagination | None = None
    max_pages: int | None = None
    parser: Parser | None = None

    def get_explorations(self) -> dict[str, Exploration]:
        return {key: stage for key, stage in self.stages if isinstance(stage, Exploration)}


def run_pass(task: Pass, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the pass over the batches of one partition; yield rows as their pages arrive. Raise DriverGone."""
    gc.set_threshold(_GC_THRESHOLD)
    task = replace(task, options=_limit_concurrency(task))
    context = TaskContext.get()
    name = f"{task.name}/{context.partitionId() if context else 0}"
    connection = connect(task.endpoint, name)
    if task.fetches and task.endpoint and not connection:
        raise DriverGone
    try:
        reporter = ProgressReporter(connection, task.endpoint.preview_rows if task.endpoint else 0)
        tools = _Tools(
            SharedHostThrottle(connection, task.options) if connection else None,
            (SharedSession(connection) if connection else LocalSession()) if task.options.session else None,
        )
        yield from _produce_batches(task, batches, reporter, tools)
    finally:
        if connection:
            connection.close()


@dataclass(frozen=True, slots=True)
class _Tools:
    """Access to what the fetchers of a run share; None for a fetcher's own."""

    throttle: HostThrottle | None
    session: Session | None


def _produce_batches(
    task: Pass, batches: Iterable[pa.RecordBatch], reporter: ProgressReporter, tools: _Tools
) -> Iterator[pa.RecordBatch]:
    links = {key: RecordBuffer(each.columns, each.schema, task.stages) for key, each in task.get_explorations().items()}
    output = PassOutput(RecordBuffer(task.columns, task.schema, task.stages), links)
    pending = PendingWriters()
    enter, flushes = _chain_stages(task, output, pending, reporter)
    entered = reporter.get_counts(task.enters)
    reporter.switch(entered)
    explores = task.enters in links  # an explore counts its pages itself
    for row in _read_rows(task, batches, reporter, tools):
        if not explores:
            entered.add_row(row)
        enter(row)
        yield from _drain_writers(output, pending)
    for flush in flushes:
        flush()
        yield from _drain_writers(output, pending)
    if not output.is_empty():
        yield output.take()
    reporter.close()


def _drain_writers(output: PassOutput, pending: PendingWriters) -> Iterator[pa.RecordBatch]:
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


def _read_rows(
    task: Pass, batches: Iterable[pa.RecordBatch], reporter: ProgressReporter, tools: _Tools
) -> Iterator[Row]:
    entering = _read_entering_rows(task.entering, batches)
    if not task.fetches:
        for _, row in entering:
            reporter.tick()
            if row:
                yield row
        return
    first = next((stage for _, stage in task.stages), None)
    once = isinstance(first, Exploration) and first.level > 0
    without_link: deque[Row] = deque()
    secrets = list_spellings(task.cache.secrets)
    counts = reporter.get_counts(task.enters)
    requests: Iterable[tuple[str, list[Row]]] = _group_by_link(entering, without_link, once)
    if task.request and task.request.is_per_row:
        requests = _separate_rows(requests)
    chains, describe = _create_chains(task), build_describer(task.request) if task.request else None
    with _open_cache(task) as cache, _create_fetcher(task, tools, cache) as fetcher:
        while requests:
            for page, rows in fetcher.fetch(requests, describe):
                fetched = Fetched.from_page(page, secrets, task.parser)
                reporter.add_page(counts, page, fetched)
                for row in chains.add(page, fetched, rows) if chains else rows:
                    arrived = page.add_to(row) if isinstance(page, BrowserPage) else row
                    arrived.fetched, arrived.element = fetched, fetched.root
                    yield arrived
                while without_link:
                    yield without_link.popleft()
            requests = chains.take() if chains else ()
    yield from without_link


def _create_chains(task: Pass) -> PageChains | None:
    if task.pagination is None:
        return None
    return PageChains(task.pagination, task.request is not None and task.request.has_body, task.max_pages)


def _limit_concurrency(task: Pass) -> FetchOptions:
    """Return fetch options with one request per tab: requests that wait for a tab would occupy their hosts."""
    if task.browsing is None:
        return task.options
    return replace(task.options, concurrency=BrowserOptions.from_environment().pages)


def _open_cache(task: Pass) -> AbstractContextManager[ExecutionPageCache | None]:
    is_private = task.options.session or (task.request is not None and task.request.is_private)
    options = replace(task.cache, shared=None) if is_private else task.cache
    if not (options.private or options.shared):
        return nullcontext()
    variant = task.options.user_agent
    if task.browsing:  # as a digest: a trace may contain secrets, and the variant is stored with the page
        variant = f"{variant}\n{sha256(repr(task.browsing).encode()).hexdigest()}"
    return ExecutionPageCache(options, variant)


def _create_fetcher(task: Pass, tools: _Tools, cache: ExecutionPageCache | None) -> Fetcher:
    return create_fetcher(task.options, task.browsing, tools.throttle, cache, tools.session)


def _read_entering_rows(columns: Columns, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, Row | None]]:
    """Yield the rows from Spark with the links to fetch for them; None in place of a row marks a visited link."""
    own = {*ENGINE_COLUMNS} - {*columns}
    return chain.from_iterable(_convert_batch(batch, own) for batch in batches)


def _convert_batch(batch: pa.RecordBatch, own: set[str]) -> Iterator[tuple[str | None, Row | None]]:
    nothing: list[Any] = [None] * batch.num_rows
    cells = {name: _convert_column(batch.column(name)) for name in batch.schema.names}
    links, others = cells.pop(LINK, nothing), cells.pop(OPEN, None)
    engine = [cells.pop(name, nothing) if name in own else nothing for name in ENGINE_COLUMNS]
    rows = zip(*cells.values(), strict=True) if cells else repeat((), batch.num_rows)
    values: Iterable[dict[str, Any]] = map(dict, map(zip, repeat(tuple(cells)), rows))
    if others:
        values = map(_add_other_values, values, others)
    return zip(links, map(Row.from_spark, values, *engine), strict=True)


def _convert_column(column: pa.Array) -> list[Any]:
    if column.type != _TIMESTAMP:
        return column.to_pylist()
    since = column.cast(pa.int64()).to_pylist()  # five times as fast as to_pylist
    return [None if each is None else _EPOCH + timedelta(microseconds=each) for each in since]


def _add_other_values(values: dict[str, Any], others: str | None) -> dict[str, Any]:
    return values | loads(others) if others else values


def _group_by_link(
    entering: Iterable[tuple[str | None, Row | None]], without_link: deque[Row], once: bool
) -> Iterator[tuple[str, list[Row]]]:
    """Yield each link with all its rows, or with the first alone (`once`); equal links are neighbours.

    A visited link comes before its equals and is skipped with them.
    """
    for link, group in groupby(entering, key=itemgetter(0)):
        rows = [*map(itemgetter(1), group)]
        if link is None:
            without_link.extend(filter(None, rows))
        elif all(rows):
            yield link, rows[:1] if once else rows


def _separate_rows(requests: Iterable[tuple[str, list[Row]]]) -> Iterator[tuple[str, list[Row]]]:
    return ((link, [row]) for link, rows in requests for row in rows)


def _chain_stages(
    task: Pass, output: PassOutput, pending: PendingWriters, reporter: ProgressReporter
) -> tuple[Emit, list[Flush]]:
    """Return the stages as one function, in which each calls the next and the last writes the output.

    The list of functions processes the rows that stages have not processed yet.

    Writers of links and of multiplied rows go to `pending`.
    """
    emit = _write_links(task.links, output, pending) if task.links else output.add_row
    flushes = deque[Flush]()
    for key, stage in reversed(task.stages):
        if isinstance(stage, RowStage):
            emit = _apply_row_stage(stage, emit, reporter.get_counts(key), reporter, flushes, pending)
        else:
            emit = _explore_pages(key, stage, emit, output, pending, reporter.get_counts(key))
    return emit, list(flushes)


def _apply_row_stage(
    stage: RowStage,
    emit: Emit,
    counts: StepCounts,
    reporter: ProgressReporter,
    flushes: deque[Flush],
    pending: PendingWriters,
) -> Emit:
    counts.tally = PageTally(len(stage.list_selectors()))
    work = stage.build_tallied_worker(counts.tally)
    switch = reporter.switch  # the time of a row counts for the stage that works on it

    def take(row: Row, rows: Iterable[Row]) -> int:
        before, taken = switch(counts), counts.rows
        for made in rows:
            counts.add_row(made)
            if made.fetched.error and not row.fetched.error:
                counts.errors += 1
            emit(made)
        switch(before)
        return counts.rows - taken

    def take_one_by_one(row: Row, rows: Iterator[Row]) -> Iterator[None]:
        while take(row, islice(rows, 1)):
            yield

    def run_batch(batch: Callable[[], None]) -> None:
        before = switch(counts)
        batch()
        switch(before)

    if isinstance(work, BatchWorker):
        batcher = RowBatcher(work, take)
        flushes.appendleft(lambda: run_batch(batcher.flush))
        return lambda row: run_batch(lambda: batcher.add(row))
    if stage.widens:
        return lambda row: pending.append(take_one_by_one(row, iter(work(row))))
    return lambda row: take(row, work(row))


def _write_links(stage: LinkStage, output: PassOutput, pending: PendingWriters) -> Emit:
    """Write a row for each link, which the next pass fetches."""
    find_links, drops = stage.build_worker(), stage.drops_rows_without_link

    def write(row: Row) -> Iterator[None]:
        position = 0
        for position, link in enumerate(find_links(row), start=1):
            output.add_row(row.follow_link(link, (*row.ordinal, position)), link.url)
            yield
        if position == 0 and not drops:
            output.add_row(row.keep_without_link(), None)

    return lambda row: pending.append(write(row))


def _explore_pages(
    key: str, exploration: Exploration, emit: Emit, output: PassOutput, pending: PendingWriters, counts: StepCounts
) -> Emit:
    """Emit each page once and write its links for the next level.

    At level 0 also write the links of the pages themselves, as visited, so that no level fetches them again.
    """
    stage, level = exploration.stage, exploration.level
    find_links, last = stage.build_worker(), stage.max_depth or 0
    latest: Fetched = NOTHING

    def write(row: Row) -> Iterator[None]:
        for position, link in enumerate(find_links(row), start=1):
            if link.url:
                ordinal = place_link(row.ordinal, level, position)
                output.add_link(key, row.follow_link(link, ordinal, level + 1), link.url, level + 1)
                yield

    def visit(row: Row) -> None:
        nonlocal latest
        if level == 0:
            is_whole_page = row.element is not None and row.element is row.fetched.root
            if is_whole_page and row.fetched is latest:  # another row of the same page
                return
            latest = row.fetched
            row = row.set_depth(0, (*row.ordinal, 0))
            if row.fetched.requested_url:
                output.add_link(key, row, row.fetched.requested_url, 0)
        counts.add_row(row)
        if level < last:
            pending.append(write(row))
        emit(row)

    return visit
