"""Pages by the browser, for a pass: several tabs at a time, failures as pages, crashes survived."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from random import SystemRandom
from types import TracebackType
from typing import Self, TypeVar

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

from pipelines.browser.actions import Browsing
from pipelines.browser.chromium import chromium
from pipelines.browser.failures import Crashed, Redirected, VisitFailed, first_line, gone
from pipelines.browser.options import BrowserOptions
from pipelines.browser.page import BrowserPage
from pipelines.browser.tab import Tab
from pipelines.browser.visit import Visit
from pipelines.fetch import FetchOptions, Page
from pipelines.fetch.failures import describe_too_many_redirects, is_retryable_status
from pipelines.fetch.fetcher import PageCache
from pipelines.fetch.page import parse_retry_after
from pipelines.fetch.queue import RequestQueue
from pipelines.fetch.request import Request, as_asked, led_to
from pipelines.fetch.throttle import HostThrottle, LocalHostThrottle

T = TypeVar("T")
Outcome = list[BrowserPage] | Redirected

_TICK = 0.1  # seconds between looks at what the hosts allow
_random = SystemRandom()


class BrowserFetcher:
    """Visits pages, as many at a time as the browser's options say; for one thread.

    A page that redirects to what is not there, crashes the browser or never comes to rest is a page with an `error`.
    """

    def __init__(
        self,
        options: FetchOptions,
        browsing: Browsing,
        browser: BrowserOptions | None = None,
        throttle: HostThrottle | None = None,
        cache: PageCache | None = None,
    ) -> None:
        self._options = options
        self._throttle = throttle or LocalHostThrottle(options)
        self._cache = cache
        self._browsing = browsing
        self._chromium = chromium(browser or BrowserOptions.from_environment(), browsing.images)
        self._idle: list[Tab] = []

    def __enter__(self) -> Self:
        self._chromium.submit(self._chromium.join()).result()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._chromium.submit(self._leave()).result()

    def fetch(self, requests: Iterable[tuple[str, T]]) -> Iterator[tuple[Page, T]]:
        """A page for each (url, tag), in the order in which they finish; one for each snapshot where there are more."""
        queue = RequestQueue(requests, self._options, self._throttle, self._cache)
        running: dict[Future[Outcome], Request[T]] = {}
        done: SimpleQueue[Future[Outcome]] = SimpleQueue()
        pages: deque[tuple[Page, T]] = deque()
        try:
            while True:
                self._start(queue, running, done)
                pages.extend(queue.take_finished())
                at_hand = len(pages) > 0
                while pages:
                    yield pages.popleft()  # and let it go: what its reader makes of it would live as long
                if not running and queue.empty:
                    return
                if at_hand and not running:
                    continue
                with suppress(Empty):  # then a host may have room by now
                    seconds = queue.wait(_TICK, sleep=not running)
                    pages.extend(self._finish(queue, running, done.get(timeout=seconds if running else 0)))
        finally:
            for future in running:
                future.cancel()
            queue.abandon(running.values())

    def _start(
        self,
        queue: RequestQueue[T],
        running: dict[Future[Outcome], Request[T]],
        done: SimpleQueue[Future[Outcome]],
    ) -> None:
        """Starts what may start."""
        for request in queue.starting(self._chromium.options.pages - len(running)):
            future = self._chromium.submit(self._pages(request))
            running[future] = request
            future.add_done_callback(done.put)

    def _finish(
        self, queue: RequestQueue[T], running: dict[Future[Outcome], Request[T]], future: Future[Outcome]
    ) -> list[tuple[Page, T]]:
        """The pages of one visit, none where it is led elsewhere; a page with nothing beside it may be used again."""
        request, outcome = running.pop(future), future.result()
        if isinstance(outcome, Redirected):
            queue.redirected(request, outcome.address, outcome.seconds, outcome.cookies)
            return []
        pages = [led_to(page, request) for page in outcome]
        last = pages[-1]
        if last.status in (429, 503):
            queue.back_off(request, parse_retry_after(last.header("retry-after") or "") or self._options.backoff)
        queue.done(request, last, keep=len(pages) == 1 and not last.values)
        return [(as_asked(page, request), request.tag) for page in pages]

    async def _leave(self) -> None:
        await asyncio.gather(*(tab.close() for tab in self._idle))
        self._idle.clear()
        await self._chromium.leave()

    async def _pages(self, request: Request[T]) -> Outcome:
        """The pages of one address after as many tries as may help, or where it leads; raises NoBrowser."""
        attempt = 0
        while True:
            try:
                pages, again = await self._tried(request)
            except Redirected as redirected:
                if len(request.passed) < self._options.max_redirects:
                    return redirected
                return [_failed(request.address, describe_too_many_redirects(self._options))]
            delay = self._delay(pages[-1], attempt) if again else None
            if delay is None:
                return pages
            attempt += 1
            await asyncio.sleep(delay)

    async def _tried(self, request: Request[T]) -> tuple[list[BrowserPage], bool]:
        """One try, and whether another one may fare better; raises Redirected."""
        url, patience = request.address, self._patience()
        try:
            async with self._tab(url) as tab, asyncio.timeout(patience - request.spent):
                visit = Visit(tab, url, self._options, request.cookies)
                pages = await tab.unless_crashed(visit.pages(self._browsing.traces))
            return pages, is_retryable_status(pages[-1].status or 0)
        except VisitFailed as failure:
            again = failure.passing or is_retryable_status(failure.status or 0)
            return [_failed(url, str(failure), failure.status)], again
        except Crashed as crash:
            return [_failed(url, str(crash) or "the browser crashed on the page")], True
        except TimeoutError:
            return [_failed(url, f"timed out after {patience:g} s")], False

    @asynccontextmanager
    async def _tab(self, address: str) -> AsyncGenerator[Tab]:
        """A tab for one visit of `address`; it is used again unless something is wrong with it."""
        tab = await self._woken(address) or await self._opened()
        tab.begin()
        try:
            yield tab
        except Redirected:
            raise
        except BaseException:
            tab.soiled = True
            raise
        finally:
            await self._put_back(tab)

    async def _woken(self, address: str) -> Tab | None:
        """An idle tab for a visit of `address`; one that cannot get away from its last page is closed."""
        while self._idle:
            tab = self._idle.pop()
            try:
                await tab.wake(address)
            except (PlaywrightError, TimeoutError):
                await tab.close()
            else:
                return tab
        return None

    async def _opened(self) -> Tab:
        browser = await self._chromium.browser()
        try:
            return await self._opened_in(browser)
        except PlaywrightError as error:
            if browser.is_connected() and not gone(error):
                raise _unopened(error) from error
        await self._chromium.lost(browser)  # its driver may have died, of which the browser hears nothing
        try:
            return await self._opened_in(await self._chromium.browser())
        except PlaywrightError as error:
            raise _unopened(error) from error

    async def _opened_in(self, browser: Browser) -> Tab:
        remote = self._chromium.options.service_key is not None
        return await Tab.open(browser, self._options, self._browsing.images, remote)

    async def _put_back(self, tab: Tab) -> None:
        if tab.usable:
            with suppress(PlaywrightError, TimeoutError):  # then it is closed below
                await tab.rest()
                self._idle.append(tab)
                return
        await tab.close()

    def _patience(self) -> float:
        """Seconds that a whole visit may take."""
        return self._options.total_timeout + sum(action.patience() for action in self._browsing.traces)

    def _delay(self, page: BrowserPage, attempt: int) -> float | None:
        """Seconds until the next try: exponential with jitter, at least what the server asks; None for no other try."""
        options = self._options
        asked = parse_retry_after(page.header("retry-after") or "") or 0.0
        if attempt >= options.retries or asked > options.max_retry_after:
            return None
        return max(asked, options.backoff * 2**attempt * _random.uniform(0.5, 1.5))


def _unopened(error: PlaywrightError) -> Crashed:
    return Crashed(f"the browser could not open a tab: {first_line(error)}")


def _failed(url: str, error: str, status: int | None = None) -> BrowserPage:
    return BrowserPage(url, url, status, error, None, None, b"", datetime.now(UTC))
