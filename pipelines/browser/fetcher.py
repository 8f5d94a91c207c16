"""Fetch pages with the browser: several tabs at a time, retries, failures as pages with an error."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from random import SystemRandom
from typing import Self, TypeVar

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

from pipelines.browser.actions import Browsing
from pipelines.browser.chromium import get_chromium
from pipelines.browser.failures import BrowserCrashed, VisitFailed, VisitRedirected, format_error, is_closed
from pipelines.browser.model import BrowserOptions
from pipelines.browser.socks_proxy import SocksProxy
from pipelines.browser.tab import Tab
from pipelines.browser.visit import Visit
from pipelines.coordination.messages import Endpoint
from pipelines.fetch import FetchOptions, Page
from pipelines.fetch.blocks import mark_blocked
from pipelines.fetch.failures import describe_too_many_redirects
from pipelines.fetch.fetcher import Describe, PageCache
from pipelines.fetch.page import parse_retry_after
from pipelines.fetch.proxies import ProxyRotation
from pipelines.fetch.queue import Cookies, Request, RequestQueue
from pipelines.fetch.session import LocalSession, Session, format_cookie, list_changes
from pipelines.fetch.throttle import HostThrottle, LocalHostThrottle

T = TypeVar("T")
Outcome = list[Page] | VisitRedirected

_TICK = 0.1  # seconds between polls of the throttle
_random = SystemRandom()


class BrowserFetcher:
    """A fetcher that visits several pages at a time, according to the browser's options; not thread-safe.

    A visit that fails, crashes the browser or does not end in time gives a page with an `error`. Once `stop` is set,
    `fetch` ends without the visits that have begun.
    """

    def __init__(
        self,
        options: FetchOptions,
        browsing: Browsing,
        browser: BrowserOptions | None = None,
        throttle: HostThrottle | None = None,
        cache: PageCache | None = None,
        session: Session | None = None,
        stop: threading.Event | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._session = session
        self._stop = stop or threading.Event()
        self._cookies = LocalSession()  # of the session, for the visits
        self._new_cookies: SimpleQueue[str] = SimpleQueue()
        self._options = options
        self._throttle = throttle or LocalHostThrottle(options)
        self._cache = cache
        self._browsing = browsing
        self._chromium = get_chromium(browser or BrowserOptions.from_environment(), browsing.images)
        self._idle: list[Tab] = []
        tunnels = [each for each in options.proxies if not each.startswith("socks5:")]
        self._rotation = ProxyRotation(tunnels, options.session) if tunnels else None

    def __enter__(self) -> Self:
        if self._session:
            self._cookies.save(self._session.load())
        self._chromium.submit(self._chromium.acquire()).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._chromium.submit(self._release()).result()

    def fetch(self, requests: Iterable[tuple[str, T]], describe: Describe[T] | None = None) -> Iterator[tuple[Page, T]]:
        """Yield the page or snapshots of every (url, tag), in the order of completion."""
        queue = RequestQueue(requests, self._options, self._throttle, self._cache, describe)
        running: dict[Future[Outcome], Request[T]] = {}
        done: SimpleQueue[Future[Outcome]] = SimpleQueue()
        pages: deque[tuple[Page, T]] = deque()
        try:
            while True:
                if not self._stop.is_set():
                    self._start(queue, running, done)
                pages.extend(queue.take_finished())
                at_hand = len(pages) > 0
                while pages:
                    yield pages.popleft()  # keep no reference while the caller uses it
                if self._stop.is_set() or (not running and queue.empty):
                    return
                if at_hand and not running:
                    continue
                with suppress(Empty):  # no visit has ended: a host may allow another one
                    seconds = queue.wait(_TICK, block=not running)
                    pages.extend(self._finish(queue, running, done.get(timeout=seconds if running else 0)))
        finally:
            for future in running:
                future.cancel()
            queue.cancel(running.values())

    def _start(
        self,
        queue: RequestQueue[T],
        running: dict[Future[Outcome], Request[T]],
        done: SimpleQueue[Future[Outcome]],
    ) -> None:
        """Start the visits that tabs and hosts allow."""
        for request in queue.start(self._chromium.options.pages - len(running)):
            future = self._chromium.submit(self._visit(request))
            running[future] = request
            future.add_done_callback(done.put)

    def _finish(
        self, queue: RequestQueue[T], running: dict[Future[Outcome], Request[T]], future: Future[Outcome]
    ) -> list[tuple[Page, T]]:
        """Return the pages of a completed visit, none for a redirect; cache them."""
        request, outcome = running.pop(future), future.result()
        if self._session:
            self._session.save([self._new_cookies.get() for _ in range(self._new_cookies.qsize())])
        if isinstance(outcome, VisitRedirected):
            queue.redirect(request, outcome.address, outcome.seconds, outcome.cookies)
            return []
        pages = [mark_blocked(request.prepend_redirects(page)) for page in outcome]
        last = pages[-1]
        if last.status in (429, 503):
            queue.pause_host(request, parse_retry_after(last.header("retry-after") or "") or self._options.backoff)
        is_partial = len(pages) > 1 and any(page.error for page in pages)
        completed = queue.complete(request, pages, cacheable=not is_partial)
        return [(page, request.tag) for page in completed]

    async def _release(self) -> None:
        await asyncio.gather(*(tab.close() for tab in self._idle))
        self._idle.clear()
        await self._chromium.release()

    async def _visit(self, request: Request[T]) -> Outcome:
        """Return the pages of one address after retries, or its redirect; raise NoBrowser."""
        attempt, began = 0, time.monotonic()
        while True:
            try:
                pages, retryable = await self._try_visit(request, attempt)
            except VisitRedirected as redirected:
                if len(request.redirects) < self._options.max_redirects:
                    return redirected
                return [_create_failed_page(request.address, describe_too_many_redirects(self._options))]
            delay = self._compute_delay(pages[-1], attempt) if retryable else None
            if delay is None:
                seconds = request.elapsed + time.monotonic() - began
                return [replace(page, attempts=attempt + 1, seconds=seconds) for page in pages]
            attempt += 1
            await asyncio.sleep(delay)

    async def _try_visit(self, request: Request[T], attempt: int) -> tuple[list[Page], bool]:
        """Return the pages of one attempt, and whether a retry may help; raise VisitRedirected."""
        url, timeout = request.address, self._compute_timeout()
        try:
            self._check_proxies()
            async with self._use_tab(url) as tab, asyncio.timeout(timeout - request.elapsed):
                if self._rotation and isinstance(tab.guard, SocksProxy):
                    tab.guard.upstream = self._rotation.choose(url, attempt)
                cookies = self._cookies.load() if self._session else request.cookies
                visit = Visit(tab, url, self._options, cookies, self._endpoint)
                try:
                    pages = await tab.run_until_crash(visit.run(self._browsing.traces))
                except VisitRedirected as redirected:
                    self._keep_cookies(cookies, redirected.cookies)
                    raise
                self._keep_cookies(cookies, [format_cookie(each) for each in await tab.context.cookies()])
            return pages, attempt < self._options.count_retries(pages[-1].status)
        except VisitFailed as failure:
            retryable = failure.retryable or attempt < self._options.count_retries(failure.status)
            return [_create_failed_page(url, str(failure), failure.status)], retryable
        except BrowserCrashed as crash:
            return [_create_failed_page(url, str(crash) or "the browser crashed on the page")], True
        except TimeoutError:
            return [_create_failed_page(url, f"timed out after {timeout:g} s")], False

    def _check_proxies(self) -> None:
        """Raise VisitFailed if the pipeline has proxies that the browser cannot use."""
        if self._options.proxies and (self._rotation is None or self._chromium.options.service_key):
            raise VisitFailed("the browser uses http and https proxies only, and a browser service none")

    def _keep_cookies(self, before: Cookies, after: Cookies) -> None:
        """Keep what a visit has changed for the session; `_finish` saves it, on the thread of its connection."""
        if self._session:
            changes = list_changes(before, after)
            self._cookies.save(changes)
            for line in changes:
                self._new_cookies.put(line)

    @asynccontextmanager
    async def _use_tab(self, address: str) -> AsyncGenerator[Tab]:
        """Provide a tab for one visit of `address`, and keep it for other visits if it is reusable."""
        tab = await self._take_idle_tab(address) or await self._open_tab()
        tab.begin_visit()
        try:
            yield tab
        except VisitRedirected:
            raise
        except BaseException:
            tab.dirty = True
            raise
        finally:
            await self._return_tab(tab)

    async def _take_idle_tab(self, address: str) -> Tab | None:
        """Take an idle tab for a visit of `address`; close tabs that cannot leave their last page."""
        while self._idle:
            tab = self._idle.pop()
            try:
                await tab.resume(address)
            except (PlaywrightError, TimeoutError):
                await tab.close()
            else:
                return tab
        return None

    async def _open_tab(self) -> Tab:
        browser = await self._chromium.get_browser()
        try:
            return await self._open_tab_in(browser)
        except PlaywrightError as error:
            if browser.is_connected() and not is_closed(error):
                raise _create_open_failure(error) from error
        await self._chromium.discard(browser)  # Playwright's driver may have crashed, which the browser does not notice
        try:
            return await self._open_tab_in(await self._chromium.get_browser())
        except PlaywrightError as error:
            raise _create_open_failure(error) from error

    async def _open_tab_in(self, browser: Browser) -> Tab:
        remote = self._chromium.options.service_key is not None
        return await Tab.open(browser, self._options, self._browsing.images, remote)

    async def _return_tab(self, tab: Tab) -> None:
        if tab.is_reusable:
            with suppress(PlaywrightError, TimeoutError):  # then close it below
                await tab.suspend()
                self._idle.append(tab)
                return
        await tab.close()

    def _compute_timeout(self) -> float:
        """Return the seconds that a whole visit may take."""
        return self._options.total_timeout + sum(action.patience() for action in self._browsing.traces)

    def _compute_delay(self, page: Page, attempt: int) -> float | None:
        """Return the seconds before a retry: exponential with jitter, at least Retry-After; None for no retry."""
        options = self._options
        asked = parse_retry_after(page.header("retry-after") or "") or 0.0
        if attempt >= options.retries or asked > options.max_retry_after:
            return None
        return max(asked, options.backoff * 2**attempt * _random.uniform(0.5, 1.5))


def _create_open_failure(error: PlaywrightError) -> BrowserCrashed:
    return BrowserCrashed(f"the browser could not open a tab: {format_error(error)}")


def _create_failed_page(url: str, error: str, status: int | None = None) -> Page:
    return Page(url, url, status, error, None, None, b"", datetime.now(UTC))
