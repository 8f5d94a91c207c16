"""One visit: an address is opened, its trace performed, and the page read as it then is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Response
from playwright.async_api import TimeoutError as NotInTime

from pipelines.browser.actions import ACTIONS, Action
from pipelines.browser.actions.navigation import Open
from pipelines.browser.failures import STOPPED, Crashed, Redirected, VisitFailed, failed, first_line, gone, net_error
from pipelines.browser.filter import Filter
from pipelines.browser.page import BrowserPage
from pipelines.browser.tab import Tab
from pipelines.fetch import FetchOptions, canonical_url
from pipelines.fetch.request import Cookies
from pipelines.language.names import truncate

_WORLD = "spindle"
_READING_SECONDS = 30.0
_TRIES = 5
_LONGEST_ADDRESS = 2 * 1024 * 1024  # characters, as Chromium has it of one that it goes to; scripts may write longer
_PORTS = {"http": 80, "https": 443}
# Runs in a world of its own, where the page's scripts have changed nothing. What is not HTML stands in a viewer.
_READ = """(() => {
  const root = document.documentElement, type = document.contentType;
  const html = type === 'text/html' || type === 'application/xhtml+xml';
  const viewed = document.getElementById('webkit-xml-viewer-source-xml')?.innerHTML
    ?? document.querySelector('body > pre')?.textContent ?? '';
  const doctype = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '';
  const body = String(html ? doctype + (root?.outerHTML ?? '') : viewed).toWellFormed();
  let left = Boolean(window.name);
  try { left ||= localStorage.length + sessionStorage.length > 0; } catch { left = true; }
  const status = performance.getEntriesByType('navigation')[0]?.responseStatus ?? 0;
  return {ready: document.readyState !== 'loading', type, status, left, size: body.length,
          body: body.length > MOST ? '' : body};
})()"""


class Visit:
    """What the actions of a trace work on: `page` is Playwright's, `address` what the row asked for, or where that has
    led, with the `cookies` that were set on the way.
    """

    def __init__(self, tab: Tab, address: str, options: FetchOptions, cookies: Cookies = ()) -> None:
        self.page = tab.page
        self.address = address
        self._tab = tab
        self._options = options
        self._cookies = cookies
        self._began = time.monotonic()
        self._opened = False
        self._response: Response | None = None
        self._values: dict[str, bytes] = {}
        self._snapshots: list[BrowserPage] = []

    async def go(self, url: str) -> None:
        target = canonical_url(url, self.page.url if canonical_url(self.page.url) else None)
        if target is None:
            raise VisitFailed(f"'{truncate(url)}' is not an http or https address")
        timeout = self._options.total_timeout * 1000
        first, self._opened = not self._opened, True
        self._tab.opening = target if first and target == canonical_url(self.address) else None
        self._response = None
        try:
            self._response = await self.page.goto(target, wait_until="load", timeout=timeout)
        except NotInTime:
            if not canonical_url(self.page.url):
                raise self._late() from None
        except PlaywrightError as error:
            if self._tab.led:
                raise await self._redirected(self._tab.led) from None
            raise self._failure(error, target) from error
        finally:
            self._tab.opening = None

    async def snapshot(self) -> None:
        way = self._tab.way
        if isinstance(way, Filter) and (reason := await way.refusal(self.page.url)):
            raise VisitFailed(reason)
        self._snapshots.append(await self._read())

    async def evaluate(self, script: str) -> Any:
        devtools = self._tab.devtools
        world = await devtools.send("Page.createIsolatedWorld", {"frameId": self._tab.frame, "worldName": _WORLD})
        call = {"expression": script, "contextId": world["executionContextId"], "returnByValue": True}
        answer = await devtools.send("Runtime.evaluate", call)
        return None if "exceptionDetails" in answer else answer["result"].get("value")

    def keep(self, column: str, value: bytes) -> None:
        self._values[column] = value

    async def pages(self, traces: Sequence[Action]) -> list[BrowserPage]:
        """The page, or one for each snapshot; raises Redirected, VisitFailed and Crashed."""
        await self._take_cookies()
        try:
            await self._follow(traces)
        except VisitFailed as failure:
            failure.status = self._status()
            raise
        if len(self._snapshots) == 1:
            return self._snapshots
        return [replace(page, position=position) for position, page in enumerate(self._snapshots, start=1)]

    async def _follow(self, traces: Sequence[Action]) -> None:
        if not (traces and isinstance(traces[0], Open)):
            await self.go(self.address)
        for number, action in enumerate(traces, start=1):
            await self._perform(number, action)
        if not self._snapshots:
            await self.snapshot()

    async def _take_cookies(self) -> None:
        if self._cookies:
            taken: Any = self._cookies  # what a context gives it takes, though the types differ
            try:
                await self.page.context.add_cookies(taken)
            except PlaywrightError as error:
                raise Crashed from error

    async def _redirected(self, address: str) -> Exception:
        try:
            cookies = await self.page.context.cookies()
        except PlaywrightError:
            return Crashed()
        return Redirected(address, cookies, time.monotonic() - self._began)

    async def _perform(self, number: int, action: Action) -> None:
        try:
            await action.perform(self)
        except NotInTime:
            within = f"within {action.patience():g} s"
            raise VisitFailed(f"{_told(number, action)}: nothing to act on came {within}") from None
        except PlaywrightError as error:
            if self._dead(error):
                raise Crashed from error
            raise VisitFailed(f"{_told(number, action)}: {first_line(error)}") from error
        except (VisitFailed, Redirected, Crashed):
            raise
        except Exception as error:  # whatever a page has made it fall over is the page's own failure
            told = f"{type(error).__name__}: {first_line(error)}"
            raise VisitFailed(f"{_told(number, action)}: {told}") from error

    async def _read(self) -> BrowserPage:
        """The page as it is; one that is just going elsewhere is waited for."""
        for _ in range(_TRIES):
            try:
                script = _READ.replace("MOST", str(self._options.max_body))
                found = await asyncio.wait_for(self.evaluate(script), _READING_SECONDS)
            except TimeoutError:
                raise VisitFailed(f"the page's scripts did not rest for {_READING_SECONDS:g} s") from None
            except PlaywrightError as error:
                if self._dead(error):
                    raise Crashed from error
                found = None
            if found and found["ready"]:
                return self._page(found)
            await self._loaded()
        raise VisitFailed("the page never stayed long enough to be read")

    async def _loaded(self) -> None:
        try:
            await self.page.wait_for_load_state("domcontentloaded", timeout=self._options.total_timeout * 1000)
        except NotInTime:
            raise self._late() from None
        except PlaywrightError as error:
            raise Crashed from error
        await asyncio.sleep(0.1)

    def _page(self, found: dict[str, Any]) -> BrowserPage:
        if found["left"]:
            self._tab.soiled = True
        if self._tab.way.exceeded or found["size"] > self._options.max_body:
            raise self._too_large()
        url = canonical_url(self.page.url)
        if url is None:
            raise self._astray()
        if len(url) > _LONGEST_ADDRESS:
            raise VisitFailed(f"the page has given itself an address of {len(url):,} characters")
        return BrowserPage(
            self.address,
            url,
            found["status"] or self._status(),
            None,
            found["type"],
            "utf-8",
            found["body"].encode(),
            datetime.now(UTC),
            _redirects(self._response),
            _head(self._response),
            self._tab.way.received,
            values=dict(self._values),
        )

    def _status(self) -> int | None:
        """What the server answered for the address that was opened last."""
        return self._response.status if self._response else None

    def _failure(self, error: PlaywrightError, target: str) -> Exception:
        if self._tab.way.exceeded:
            return self._too_large()
        if self._dead(error):
            return Crashed()
        code = net_error(error.message)
        return self._lost(code, target) if code else VisitFailed(_plainly(error))

    def _lost(self, code: str, address: str) -> VisitFailed:
        """`address` could not be had; or, where it led elsewhere, what it led to."""
        parts = urlsplit(self._tab.lost[0] if self._tab.lost else address)
        told = self._tab.way.failures
        if code.startswith(STOPPED) and told:
            reason = told.get(f"{parts.hostname}:{parts.port or _PORTS.get(parts.scheme)}") or list(told.values())[-1]
            return VisitFailed(reason, passing=not reason.startswith("refused"))
        return failed(code, parts.hostname or address)

    def _dead(self, error: PlaywrightError) -> bool:
        browser = self._tab.context.browser
        connected = browser is not None and browser.is_connected()
        closed = self.page.is_closed() or not connected or gone(error)
        return self._tab.crashed or closed or "crashed" in error.message.lower()

    def _late(self) -> VisitFailed:
        return VisitFailed(f"timed out after {self._options.total_timeout:g} s")

    def _too_large(self) -> VisitFailed:
        return VisitFailed(f"the page, with all that it loads, is larger than {self._options.max_body:,} bytes")

    def _astray(self) -> VisitFailed:
        if self.page.url.startswith("chrome-error:") and self._tab.lost and (code := net_error(self._tab.lost[1])):
            return self._lost(code, self.address)
        if self._tab.way.failures:
            return VisitFailed(list(self._tab.way.failures.values())[-1])
        return VisitFailed(f"the page led to '{truncate(self.page.url)}', which is not an http or https address")


def _told(number: int, action: Action) -> str:
    name = next((each.name for each in ACTIONS if each.thing is type(action)), type(action).__name__)
    return f"action {number}, {name} {action.title()}".rstrip()


def _plainly(error: PlaywrightError) -> str:
    line = first_line(error)
    if "Download is starting" in line:
        return "the address is a download, not a page"
    return f"the browser could not open the page: {line}"


def _redirects(response: Response | None) -> tuple[str, ...]:
    """Addresses between the one that was asked for and the last."""
    found: list[str] = []
    request = response.request.redirected_from if response else None
    while request:
        found.append(request.url)
        request = request.redirected_from
    return tuple(reversed(found[:-1]))


def _head(response: Response | None) -> bytes:
    headers = response.headers if response else {}
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1", "replace")
