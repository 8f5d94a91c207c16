"""One pass over the Arrow batches of one partition: its connections, its fetcher and its page cache."""

from __future__ import annotations

import gc
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import pyarrow as pa

from pipelines.browser.factory import create_fetcher
from pipelines.browser.model import BrowserOptions
from pipelines.contract.workers import Tools
from pipelines.coordination.client import (
    Connection,
    DriverGone,
    SharedHostThrottle,
    SharedSession,
    connect,
    load_environment,
)
from pipelines.coordination.services import ServiceClient
from pipelines.engine.definition import Pass
from pipelines.engine.progress import ProgressReporter
from pipelines.engine.record_batches import open_output, read_entries
from pipelines.engine.rendering import add_rendering
from pipelines.engine.row_pass import process_entries
from pipelines.extract.rows import PageTally
from pipelines.fetch import Fetcher, FetchOptions
from pipelines.fetch.fetcher import PageCache
from pipelines.fetch.urls import list_spellings
from pipelines.incremental.tracker import RevalidatingCache
from pipelines.page_cache.cache import ExecutionPageCache
from pipelines.page_cache.options import CacheOptions

if TYPE_CHECKING:
    from pipelines.inference.shared_reader import SharedReader

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
        fetching = replace(task.fetching, browsing=None, file_limit=None)
        open_cache = partial(_open_cache, replace(task, fetching=fetching, cache=cache))
        is_replay = task.cache.replay is not None
        services = ServiceClient(task.options, task.endpoint, f"{task.name}/{partition}", open_cache, is_replay)
    if not connection and (task.fetches or task.asks_questions):
        raise DriverGone
    reader = _open_reader(asking) if asking else None
    tools = Tools(PageTally(0), reader, services)
    try:
        if connection and task.endpoint:
            load_environment(connection, task.endpoint)
        reporter = ProgressReporter(connection, task.endpoint.preview_rows if task.endpoint else 0)
        entering, output = read_entries(task.entering, batches), open_output(task)
        with _open_fetcher(task, connection, (reader, services), stop, reporter) as fetcher:
            yield from process_entries(task, entering, output, reporter, tools, fetcher)
        if reader:
            reader.finish()
    finally:
        if connection:
            connection.close()
        if asking:
            asking.close()
        if services:
            services.close()


def _open_reader(asking: Connection) -> SharedReader:
    from pipelines.inference.shared_reader import SharedReader  # here, because few passes ask

    return SharedReader(asking)


@contextmanager
def _open_fetcher(
    task: Pass,
    connection: Connection | None,
    sources: tuple[SharedReader | None, ServiceClient | None],
    stop: threading.Event | None,
    reporter: ProgressReporter,
) -> Generator[Fetcher | None]:
    """Provide a fetcher that shares throttle and session with those of other tasks; None without links to fetch."""
    if connection is None or not task.fetches:
        yield None
        return
    session = SharedSession(connection) if task.options.session else None
    throttle = SharedHostThrottle(connection, _limit_concurrency(task))
    for each in filter(None, sources):
        each.while_waiting = throttle.poll  # returns slots that other tasks need

    def open_fetcher(task: Pass) -> Fetcher:
        browsing = None if task.cache.replay else task.fetching.browsing  # a stored page needs no browser
        cache = _revalidate(task, resources.enter_context(_open_cache(task)))
        options = _limit_concurrency(task)
        return create_fetcher(options, browsing, throttle, cache, session, stop, task.endpoint)

    with ExitStack() as resources:
        yield resources.enter_context(add_rendering(task, open_fetcher, reporter))


def open_archive(task: Pass) -> ExecutionPageCache:
    """Return the pages of the archive that the pass reads."""
    return ExecutionPageCache(CacheOptions(f"{task.downloads}/{task.fetching.archive}", is_complete=True))


def _revalidate(task: Pass, cache: PageCache | None) -> PageCache | None:
    """Return the cache with the validators of known pages, where the pass has them."""
    if task.tracking is None or not task.tracking.has_validators:
        return cache
    return RevalidatingCache(task.tracking, list_spellings(task.cache.secrets), cache)


def _limit_concurrency(task: Pass) -> FetchOptions:
    """Return fetch options with one request per tab: requests that wait for a tab would occupy their hosts."""
    if task.fetching.browsing is None:
        return task.options
    return replace(task.options, concurrency=BrowserOptions.from_environment().pages)


def _open_cache(task: Pass) -> AbstractContextManager[ExecutionPageCache | None]:
    if task.fetching.archive:
        return open_archive(task)
    is_private = task.options.session or (task.request is not None and task.request.is_private)
    options = replace(task.cache, shared=None) if is_private else task.cache
    if task.fetching.cache_seconds is not None:
        options = replace(options, lifetime_seconds=task.fetching.cache_seconds)
    is_cached = task.fetching.file_limit is None and (options.private or options.shared)
    if not is_cached and options.replay is None:
        return nullcontext()
    variant = task.options.user_agent
    if task.changes:  # pages of before a login, or an order, are out of date
        variant = f"{variant}\nafter {task.changes} changes"
    if task.fetching.browsing:  # as a digest: a trace may contain secrets, and the variant is stored with the page
        variant = f"{variant}\n{sha256(repr(task.fetching.browsing).encode()).hexdigest()}"
    if task.options.proxies:  # sites answer other countries differently, and a proxy may change pages
        variant = f"{variant}\n{sha256(repr(sorted(task.options.proxies)).encode()).hexdigest()}"
    return ExecutionPageCache(options, variant)
