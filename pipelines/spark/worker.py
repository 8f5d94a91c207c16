"""One pass over one partition, in a Python worker: links in, pages fetched and read, rows or further links out."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark import TaskContext

from pipelines.browser.actions import Browsing
from pipelines.browser.model import BrowserOptions, BrowserPage
from pipelines.coordination.client import DriverGone, SharedHostThrottle, connect
from pipelines.coordination.messages import Endpoint
from pipelines.extract.rows import NOTHING, Fetched, Ordinal, Row
from pipelines.fetch import Fetcher, FetchOptions, HttpFetcher
from pipelines.fetch.throttle import HostThrottle
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.page_cache.cache import CacheOptions, ExecutionPageCache
from pipelines.planning.stage import BatchWorker, LinkStage, RowStage
from pipelines.spark.batch import Batch
from pipelines.spark.batches import Output, Table
from pipelines.spark.progress import Reporter, Step
from pipelines.spark.schema import LINK, OPEN
from pipelines.transforms.values import loads

Emit = Callable[[Row], None]
Unwritten = list[Iterator[None]]  # each writes one row at a step, or leaves what comes of it unwritten behind itself
_TIMESTAMP = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
_NEW_OBJECTS = 10_000  # before cycles are looked for: pages and rows make none, and 700 look through all that lives


@dataclass(frozen=True, slots=True)
class Exploration:
    """The part that a pass has in an explore: it reads pages of `level`, and their links are of the next one.

    `columns` are those of the rows that enter the explore; its links carry them on, and have `schema`.
    """

    stage: LinkStage
    columns: Columns
    schema: pa.Schema
    level: int = 0


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass does, as sent to the workers.

    Rows with `entering` columns come from the step `enters`, which fetches their links when `fetches`. Then each of
    `stages`, by step key, has them in turn. `links` ends the pass with links for the next one.
    What comes out has `columns` and `schema`.
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

    def explorations(self) -> dict[str, Exploration]:
        return {key: stage for key, stage in self.stages if isinstance(stage, Exploration)}


def run(task: Pass, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs the pass over the batches of one partition; rows come out as their pages arrive. Raises DriverGone."""
    gc.set_threshold(_NEW_OBJECTS)
    task = replace(task, options=_options(task))
    context = TaskContext.get()
    name = f"{task.name}/{context.partitionId() if context else 0}"
    connection = connect(task.endpoint, name)
    if task.fetches and task.endpoint and not connection:
        raise DriverGone
    try:
        reporter = Reporter(connection, task.endpoint.preview_rows if task.endpoint else 0)
        yield from _batches(
            task, batches, reporter, SharedHostThrottle(connection, task.options) if connection else None
        )
    finally:
        if connection:
            connection.close()


def _batches(
    task: Pass, batches: Iterable[pa.RecordBatch], reporter: Reporter, throttle: HostThrottle | None
) -> Iterator[pa.RecordBatch]:
    links = {key: Table(each.columns, each.schema, task.stages) for key, each in task.explorations().items()}
    output = Output(Table(task.columns, task.schema, task.stages), links)
    unwritten = Unwritten()
    enter, waiting = _chain(task, output, unwritten, reporter)
    entered = reporter.step(task.enters)
    explores = task.enters in links  # which counts its pages itself
    for row in _rows(task, batches, reporter, throttle):
        if not explores:
            entered.row(row)
        enter(row)
        yield from _full(output, unwritten)
    for batch in waiting:
        batch.flush()
        yield from _full(output, unwritten)
    if not output.empty():
        yield output.take()
    reporter.close()


def _full(output: Output, unwritten: Unwritten) -> Iterator[pa.RecordBatch]:
    """The batches that fill up meanwhile: rows and links of one page may come to a thousand times its size."""
    while unwritten:
        latest = unwritten[-1]
        for _ in latest:
            if output.full():
                yield output.take()
            if unwritten[-1] is not latest:
                break
        else:
            unwritten.remove(latest)
    if output.full():
        yield output.take()


def _rows(
    task: Pass, batches: Iterable[pa.RecordBatch], reporter: Reporter, throttle: HostThrottle | None
) -> Iterator[Row]:
    entering = _entering(task.entering, batches)
    if not task.fetches:
        for _, row in entering:
            reporter.tick()
            if row:
                yield row
        return
    first = next((stage for _, stage in task.stages), None)
    once = isinstance(first, Exploration) and first.level > 0
    without_link: deque[Row] = deque()
    step = reporter.step(task.enters)
    with _cache(task) as cache, _fetcher(task, throttle, cache) as fetcher:
        for page, rows in fetcher.fetch(_requests(entering, without_link, once)):
            fetched = Fetched.from_page(page)
            reporter.page(step, page, fetched)
            for row in rows:
                arrived = _traced(row, page) if isinstance(page, BrowserPage) else row
                arrived.fetched, arrived.element = fetched, fetched.root
                yield arrived
            while without_link:
                yield without_link.popleft()
    yield from without_link


def _options(task: Pass) -> FetchOptions:
    """With no more requests in flight than tabs: those that wait for one would keep their host from other workers."""
    if task.browsing is None:
        return task.options
    return replace(task.options, concurrency=BrowserOptions.from_environment().pages)


def _cache(task: Pass) -> AbstractContextManager[ExecutionPageCache | None]:
    if not (task.cache.private or task.cache.shared):
        return nullcontext()
    variant = task.options.user_agent
    if task.browsing:  # as a digest: what a trace types may be a secret, and stands with the page otherwise
        variant = f"{variant}\n{sha256(repr(task.browsing).encode()).hexdigest()}"
    return ExecutionPageCache(task.cache, variant)


def _fetcher(task: Pass, throttle: HostThrottle | None, cache: ExecutionPageCache | None) -> Fetcher:
    if task.browsing:
        from pipelines.browser.fetcher import BrowserFetcher  # late: Playwright takes its time to load

        return BrowserFetcher(task.options, task.browsing, throttle=throttle, cache=cache)
    return HttpFetcher(task.options, throttle, cache)


def _traced(row: Row, page: BrowserPage) -> Row:
    """The row with what a trace adds: columns, and a place among the trace's snapshots."""
    ordinal = (*row.ordinal, page.position) if page.position else row.ordinal
    return Row({**row.values, **page.values}, ordinal, row.fetched, None, row.link_text, row.depth)


def _entering(columns: Columns, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, Row | None]]:
    """Rows as they come from Spark, each with the link that it waits for; None for a link that was visited."""
    own = {*ENGINE_COLUMNS} - {*columns}
    return chain.from_iterable(_linked(batch, own) for batch in batches)


def _linked(batch: pa.RecordBatch, own: set[str]) -> Iterator[tuple[str | None, Row | None]]:
    nothing: list[Any] = [None] * batch.num_rows
    cells = {name: _cells(batch.column(name)) for name in batch.schema.names}
    links, others = cells.pop(LINK, nothing), cells.pop(OPEN, None)
    engine = [cells.pop(name, nothing) if name in own else nothing for name in ENGINE_COLUMNS]
    rows = zip(*cells.values(), strict=True) if cells else repeat((), batch.num_rows)
    values: Iterable[dict[str, Any]] = map(dict, map(zip, repeat(tuple(cells)), rows))
    if others:
        values = map(_opened, values, others)
    return zip(links, map(Row.from_spark, values, *engine), strict=True)


def _cells(column: pa.Array) -> list[Any]:
    if column.type != _TIMESTAMP:
        return column.to_pylist()
    since = column.cast(pa.int64()).to_pylist()  # Arrow itself takes five times as long
    return [None if each is None else _EPOCH + timedelta(microseconds=each) for each in since]


def _opened(values: dict[str, Any], others: str | None) -> dict[str, Any]:
    return values | loads(others) if others else values


def _requests(
    entering: Iterable[tuple[str | None, Row | None]], without_link: deque[Row], once: bool
) -> Iterator[tuple[str, list[Row]]]:
    """Equal links stand together: one request for all their rows, or for the first alone (`once`).

    A link that was visited stands before the others; it is not asked for again.
    """
    for link, group in groupby(entering, key=itemgetter(0)):
        rows = [*map(itemgetter(1), group)]
        if link is None:
            without_link.extend(filter(None, rows))
        elif all(rows):
            yield link, rows[:1] if once else rows


def _chain(task: Pass, output: Output, unwritten: Unwritten, reporter: Reporter) -> tuple[Emit, list[Batch]]:
    """The stages as one function, each calling the next, the last one writing the output; and where rows may wait.

    Links, and rows that one becomes, are left `unwritten`, to be written a batch at a time.
    """
    emit, waiting = _following(task.links, output, unwritten) if task.links else output.row, deque[Batch]()
    for key, stage in reversed(task.stages):
        if isinstance(stage, RowStage):
            emit = _row_stage(stage, emit, reporter.step(key), waiting, unwritten)
        else:
            emit = _exploring(key, stage, emit, output, unwritten, reporter.step(key))
    return emit, list(waiting)


def _row_stage(stage: RowStage, emit: Emit, step: Step, waiting: deque[Batch], unwritten: Unwritten) -> Emit:
    work = stage.build_worker()

    def take(row: Row, rows: Iterable[Row]) -> None:
        for made in rows:
            step.row(made)
            if made.fetched.error and not row.fetched.error:
                step.errors += 1
            emit(made)

    if isinstance(work, BatchWorker):
        waiting.appendleft(Batch(work, take))
        return waiting[0].add
    if stage.widens:
        return lambda row: unwritten.append(take(row, (made,)) for made in work(row))
    return lambda row: take(row, work(row))


def _following(stage: LinkStage, output: Output, unwritten: Unwritten) -> Emit:
    """Ends the pass with a row for each link, which the next pass fetches."""
    links_of, drops = stage.build_worker(), stage.drops_rows_without_link

    def written(row: Row) -> Iterator[None]:
        position = 0
        for position, link in enumerate(links_of(row), start=1):
            output.row(row.follow_link(link, (*row.ordinal, position)), link.url)
            yield
        if position == 0 and not drops:
            output.row(row.keep_without_link(), None)

    return lambda row: unwritten.append(written(row))


def _exploring(
    key: str, exploration: Exploration, emit: Emit, output: Output, unwritten: Unwritten, step: Step
) -> Emit:
    """Passes each page on once, and writes its links for the next level.

    At level 0 the pages themselves are written as links too: visited, so that no level fetches them again.
    """
    stage, level = exploration.stage, exploration.level
    links_of, last = stage.build_worker(), stage.max_depth or 0
    latest: Fetched = NOTHING

    def written(row: Row) -> Iterator[None]:
        for position, link in enumerate(links_of(row), start=1):
            if link.url:
                ordinal = _deeper(row.ordinal, level, position)
                output.link(key, row.follow_link(link, ordinal, level + 1), link.url, level + 1)
                yield

    def each(row: Row) -> None:
        nonlocal latest
        if level == 0:
            whole_page = row.element is not None and row.element is row.fetched.root
            if whole_page and row.fetched is latest:  # rows of one page follow each other: the first has been here
                return
            latest = row.fetched
            row = row.set_depth(0, (*row.ordinal, 0))
            if row.fetched.requested_url:
                output.link(key, row, row.fetched.requested_url, 0)
        step.row(row)
        if level < last:
            unwritten.append(written(row))
        emit(row)

    return each


def _deeper(ordinal: Ordinal, level: int, position: int) -> Ordinal:
    """The place of a link's page: seed first, then level, then the way through the documents."""
    seed = len(ordinal) - level - 1
    return (*ordinal[:seed], level + 1, *ordinal[seed + 1 :], position)
