"""One pass over one partition: fetch pages for links, extract rows, return rows or more links."""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from pipelines.answers import ServiceClient
from pipelines.browser.factory import create_fetcher
from pipelines.browser.model import BrowserOptions, BrowserPage
from pipelines.coordination.client import (
    Connection,
    DriverGone,
    SharedHostThrottle,
    SharedSession,
    connect,
    load_environment,
)
from pipelines.engine.definition import Pass
from pipelines.engine.frontier import Emit, Exploration, ExploreStep, PendingWriters
from pipelines.engine.progress import ProgressReporter
from pipelines.engine.record_batches import PassOutput, RecordBuffer
from pipelines.engine.schema import LINK, OPEN
from pipelines.engine.stage_chain import Flush, Sources, chain_stages
from pipelines.extract.pagination import PageChains, build_describer
from pipelines.extract.rows import NOTHING, Fetched, Row
from pipelines.fetch import Fetcher, FetchOptions, Page
from pipelines.fetch.fetcher import PageCache
from pipelines.fetch.files import FileFolder, FileName, FileNotKept
from pipelines.fetch.urls import list_spellings
from pipelines.incremental.tracker import PageTracker, RevalidatingCache, Tracking
from pipelines.inference import PageReader
from pipelines.inference.shared_reader import SharedReader
from pipelines.language.columns import ENGINE_COLUMNS, Columns
from pipelines.page_cache.cache import ExecutionPageCache
from pipelines.transforms.values import loads

_TIMESTAMP = pa.timestamp("us", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
_GC_THRESHOLD = 10_000  # new objects; pages and rows form no cycles, and the default of 700 wastes time


def run_pass(
    task: Pass, batches: Iterable[pa.RecordBatch], partition: int = 0, stop: threading.Event | None = None
) -> Iterator[pa.RecordBatch]:
    """Run the pass over the batches of one partition; yield rows as their pages arrive. Raise DriverGone.

    Once `stop` is set, it ends with the rows of the pages that have arrived.
    """
    gc.set_threshold(_GC_THRESHOLD)
    connection = connect(task.endpoint, f"{task.name}/{partition}")
    asking = connect(task.endpoint, f"{task.name}/{partition}/questions") if task.asks_questions else None
    services = None
    if task.asks_services:
        cache = replace(task.cache, since=task.cache.since or datetime.now(UTC))  # every request opens it again
        open_cache = partial(_open_cache, replace(task, browsing=None, files=None, cache=cache))
        services = ServiceClient(task.options, task.endpoint, f"{task.name}/{partition}", open_cache)
    sources = Sources(SharedReader(asking) if asking else PageReader(), services)
    if task.fetches and not connection:
        raise DriverGone
    try:
        if connection and task.endpoint:
            load_environment(connection, task.endpoint)
        task = replace(task, options=_limit_concurrency(task))
        reporter = ProgressReporter(connection, task.endpoint.preview_rows if task.endpoint else 0)
        yield from _produce_batches(task, batches, reporter, connection, sources, stop)
        if isinstance(sources.reader, SharedReader):
            sources.reader.finish()
    finally:
        if connection:
            connection.close()
        if asking:
            asking.close()
        if services:
            services.close()


def _produce_batches(
    task: Pass,
    batches: Iterable[pa.RecordBatch],
    reporter: ProgressReporter,
    connection: Connection | None,
    sources: Sources,
    stop: threading.Event | None,
) -> Iterator[pa.RecordBatch]:
    links = {key: RecordBuffer(each.columns, each.schema, task.stages) for key, each in task.get_explorations().items()}
    output = PassOutput(RecordBuffer(task.columns, task.schema, task.stages), links)
    pending = PendingWriters()
    enter, flushes, explore = chain_stages(task, output, pending, reporter, sources)
    entering = _read_entering_rows(task.entering, batches)
    reporter.switch(reporter.get_counts(task.enters))
    with _open_fetcher(task, connection, sources, stop) as fetcher:
        if explore and explore.key == task.enters:
            pending.append(explore.load(entering))
            yield from _drain_writers(output, pending)
        else:
            rows = _fetch_rows(task, entering, reporter, fetcher) if fetcher else _read_rows(entering, reporter)
            yield from _process_rows(rows, enter, flushes, output, pending)
        if explore and fetcher:
            reporter.switch(reporter.get_counts(explore.key))
            rows = _follow_links(task, explore, reporter, fetcher)
            yield from _process_rows(rows, explore.enter, flushes, output, pending)
    if not output.is_empty():
        yield output.take()
    reporter.close()


def _process_rows(
    rows: Iterable[Row], enter: Emit, flushes: Iterable[Flush], output: PassOutput, pending: PendingWriters
) -> Iterator[pa.RecordBatch]:
    for row in rows:
        enter(row)
        del row
        if pending or output.is_full():
            yield from _drain_writers(output, pending)
    for flush in flushes:
        flush()
        yield from _drain_writers(output, pending)


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


def _read_rows(entering: Iterable[tuple[str | None, Row | None]], reporter: ProgressReporter) -> Iterator[Row]:
    for _, row in entering:
        reporter.tick()
        if row:
            yield row


def _fetch_rows(
    task: Pass, entering: Iterable[tuple[str | None, Row | None]], reporter: ProgressReporter, fetcher: Fetcher
) -> Iterator[Row]:
    """Yield the entering rows with the pages of their links, and those without a link."""
    first = next((stage for _, stage in task.stages), None)
    once = isinstance(first, Exploration) and first.level > 0
    without_link: deque[Row] = deque()
    requests: Iterable[tuple[str, list[Row]]] = _group_by_link(entering, without_link, once)
    if task.request and task.request.is_per_row:
        requests = _separate_rows(requests)
    chains, tracker = _create_chains(task), _create_tracker(task, reporter)
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


def _follow_links(task: Pass, explore: ExploreStep, reporter: ProgressReporter, fetcher: Fetcher) -> Iterator[Row]:
    """Yield rows with the pages of the explore's links, level by level, until it has no links or hands them over."""
    tracking = task.get_explorations()[explore.key].tracking
    while links := explore.take_links():
        tracker = _track_level(task, tracking, reporter, explore.is_last_level)
        yield from _fetch_links(task, explore.key, links, reporter, fetcher, tracker)
        yield from explore.take_held()


def _fetch_links(
    task: Pass,
    step: str,
    links: Iterable[tuple[str, list[Row]]],
    reporter: ProgressReporter,
    fetcher: Fetcher,
    tracker: PageTracker | None,
    chains: PageChains | None = None,
) -> Iterator[Row]:
    """Yield the rows of the links with their pages, which count for the step."""
    secrets, counts, since = list_spellings(task.cache.secrets), reporter.get_counts(step), task.cache.since
    links = tracker.select(links) if tracker else links
    for page, rows in fetcher.fetch(links, build_describer(task.request) if task.request else None):
        counts.cached += since is not None and page.fetched_at < since
        if tracker and not tracker.take(page):
            reporter.add_page(counts, page, NOTHING)
            continue
        signs, is_file = task.options.blocked_when, task.files is not None
        fetched, kept = Fetched.from_page(page, secrets, task.parser, signs, is_file), {}
        if task.files:
            fetched, kept = _keep_file(task.files, task.file_name, page, fetched)
        elif task.pictures and isinstance(page, BrowserPage) and page.values:
            fetched, kept = _keep_pictures(task.pictures, page, fetched)
        fetched = chains.check(page, fetched, rows) if chains else fetched
        reporter.add_page(counts, page, fetched)
        for row in chains.add(page, fetched, rows) if chains else rows:
            arrived = page.add_to(row) if isinstance(page, BrowserPage) else row
            found = fetched
            if kept and task.files and task.file_name:
                found, named = _name_file(task.files, kept, task.file_name.fill(row.values), fetched)
                arrived = arrived.with_values(named)
            elif kept:
                arrived = arrived.with_values(kept)
            arrived.fetched, arrived.element = found, found.root
            yield arrived
            del row, arrived
        del page, rows, fetched


@contextmanager
def _open_fetcher(
    task: Pass, connection: Connection | None, sources: Sources, stop: threading.Event | None
) -> Generator[Fetcher | None]:
    """Provide a fetcher that shares throttle and session with those of other tasks; None without links to fetch."""
    if connection is None or not task.fetches:
        yield None
        return
    session = SharedSession(connection) if task.options.session else None
    throttle = SharedHostThrottle(connection, task.options)
    for each in sources:
        if isinstance(each, SharedReader | ServiceClient):
            each.while_waiting = throttle.poll  # returns slots that other tasks need
    with (
        _open_cache(task) as kept,
        create_fetcher(
            task.options, task.browsing, throttle, _revalidate(task, kept), session, stop, task.endpoint
        ) as fetcher,
    ):
        yield fetcher


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


def _keep_pictures(files: FileFolder, page: BrowserPage, fetched: Fetched) -> tuple[Fetched, dict[str, object]]:
    """Store the pictures of a page; return the page, with an error if that fails, and their paths by column."""
    try:
        return fetched, {column: files.add_picture(body) for column, body in page.values.items()}
    except FileNotKept as error:
        return _fail(fetched, error), {column: None for column in page.values}


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


def _revalidate(task: Pass, cache: PageCache | None) -> PageCache | None:
    """Return the cache with the validators of known pages, where the pass has them."""
    if task.tracking is None or not task.tracking.has_validators:
        return cache
    return RevalidatingCache(task.tracking, list_spellings(task.cache.secrets), cache)


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
    if task.cache_seconds is not None:
        options = replace(options, lifetime_seconds=task.cache_seconds)
    if task.files or not (options.private or options.shared):
        return nullcontext()
    variant = task.options.user_agent
    if task.changes:  # pages of before a login, or an order, are out of date
        variant = f"{variant}\nafter {task.changes} changes"
    if task.browsing:  # as a digest: a trace may contain secrets, and the variant is stored with the page
        variant = f"{variant}\n{sha256(repr(task.browsing).encode()).hexdigest()}"
    if task.options.proxies:  # sites answer other countries differently, and a proxy may change pages
        variant = f"{variant}\n{sha256(repr(sorted(task.options.proxies)).encode()).hexdigest()}"
    return ExecutionPageCache(options, variant)


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
