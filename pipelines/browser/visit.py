"""One visit: open an address, perform its trace, and read the page."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import CDPSession, Frame, Response
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeout

from pipelines.browser.actions import ACTIONS, Action
from pipelines.browser.actions.navigation import Open
from pipelines.browser.captured import CapturedAnswers, format_headers
from pipelines.browser.consent import dismiss_consent
from pipelines.browser.failures import (
    GUARD_CODES,
    BrowserCrashed,
    VisitFailed,
    VisitRedirected,
    create_failure,
    format_error,
    is_closed,
    parse_net_error,
)
from pipelines.browser.prompted_steps import perform_prompt
from pipelines.browser.tab import RequestFilter, Tab, find_target
from pipelines.coordination.messages import Endpoint
from pipelines.extract.rows import is_logged_out
from pipelines.fetch import FetchOptions, Page, canonical_url
from pipelines.fetch.blocks import find_block
from pipelines.fetch.queue import Cookies
from pipelines.fetch.session import format_cookie, parse_cookie
from pipelines.language.names import truncate

_WORLD = "spindle"
_READING_SECONDS = 30.0
_TRIES = 5
_MAX_ADDRESS_LENGTH = 2 * 1024 * 1024  # Chromium's limit for navigations, which scripts can exceed
_PORTS = {"http": 80, "https": 443}
# runs in an isolated world; documents other than HTML are in Chromium's viewer
_READ = """(() => {
  const root = document.documentElement, type = document.contentType;
  const html = type === 'text/html' || type === 'application/xhtml+xml';
  const viewed = document.getElementById('webkit-xml-viewer-source-xml')?.innerHTML
    ?? document.querySelector('body > pre')?.textContent ?? '';
  const doctype = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '';
  const shadows = [];
  const collect = within => {
    for (const {shadowRoot} of within.querySelectorAll("*")) {
      if (shadowRoot) { shadows.push(shadowRoot); collect(shadowRoot); }
    }
  };
  if (html) collect(document);
  const print = () => {  // outerHTML leaves out shadow trees
    const tags = root.cloneNode(false).outerHTML, end = tags.lastIndexOf('<');
    return tags.slice(0, end) + root.getHTML({shadowRoots: shadows}) + tags.slice(end);
  };
  const page = shadows.length ? print() : root?.outerHTML ?? '';
  const body = String(html ? doctype + page : viewed).toWellFormed();
  let left = Boolean(window.name);
  try { left ||= localStorage.length + sessionStorage.length > 0; } catch { left = true; }
  const status = performance.getEntriesByType('navigation')[0]?.responseStatus ?? 0;
  return {ready: document.readyState !== 'loading', type, status, left, size: body.length,
          body: body.length > MOST ? '' : body};
})()"""


# the value as JSON; NaN and functions are null
_SCRIPT = """(async () => {
  const value = JSON.stringify(await (SCRIPT
  )) ?? 'null';
  if (value.length > MOST) throw new Error('its value is too large');
  return value;
})()"""
_SCRIPT_FAILED = "the script of evaluate failed"


class Visit:
    """A visit, as the actions of a trace use it: Playwright's page, and the row's address after redirects so far,
    with the cookies that these have set.
    """

    def __init__(
        self, tab: Tab, address: str, options: FetchOptions, cookies: Cookies = (), endpoint: Endpoint | None = None
    ) -> None:
        self.page = tab.page
        self.frame = tab.page.main_frame
        self.address = address
        self._endpoint = endpoint
        self._tab = tab
        self._options = options
        self._cookies = cookies
        self._started = time.monotonic()
        self._opened = False
        self._response: Response | None = None
        self._kept: dict[str, object] = {}
        self._snapshots: list[Page] = []
        self._captured: CapturedAnswers | None = None
        self._targets: dict[Frame, tuple[CDPSession, str]] = {}  # of frames that were entered

    async def go(self, url: str) -> None:
        target = canonical_url(url, self.page.url if canonical_url(self.page.url) else None)
        if target is None:
            raise VisitFailed(f"'{truncate(url)}' is not an http or https address")
        timeout = self._options.total_timeout * 1000
        first, self._opened = not self._opened, True
        self.frame = self.page.main_frame
        self._tab.opening = target if first and target == canonical_url(self.address) else None
        self._response = None
        try:
            self._response = await self.page.goto(target, wait_until="load", timeout=timeout)
        except PlaywrightTimeout:
            if not canonical_url(self.page.url):
                raise self._create_timeout() from None
        except PlaywrightError as error:
            if self._tab.redirect:
                raise await self._create_redirect(self._tab.redirect) from None
            raise self._translate_error(error, target) from error
        finally:
            self._tab.opening = None

    async def snapshot(self) -> None:
        guard = self._tab.guard
        if isinstance(guard, RequestFilter) and (reason := await guard.find_refusal(self.frame.url)):
            raise VisitFailed(reason)
        self._snapshots.append(await self.read())

    async def evaluate(self, script: str, frame: Frame | None = None) -> Any:
        frame = frame or self.frame
        devtools, target = await self._find_target(frame)
        try:
            world = await devtools.send("Page.createIsolatedWorld", {"frameId": target, "worldName": _WORLD})
            call = {"expression": script, "contextId": world["executionContextId"], "returnByValue": True}
            answer = await devtools.send("Runtime.evaluate", call)
        except PlaywrightError:
            self._targets.pop(frame, None)  # it may be in another process now
            raise
        return None if "exceptionDetails" in answer else answer["result"].get("value")

    async def _find_target(self, frame: Frame) -> tuple[CDPSession, str]:
        if frame == self.page.main_frame:
            return self._tab.devtools, self._tab.frame
        self._tab.dirty = True  # the frame may have state of another site
        found = None if frame.is_detached() else self._targets.get(frame)
        found = found or await find_target(frame, self._tab.devtools)
        if found is None:
            raise VisitFailed("the frame has gone from the page")
        self._targets[frame] = found
        return found

    async def enter_frame(self, selector: str | None, seconds: float) -> None:
        if selector is None:
            self.frame = self.page.main_frame
            return
        element = await self.frame.locator(selector).first.element_handle(timeout=seconds * 1000)
        if (frame := await element.content_frame()) is None:
            raise VisitFailed(f"the element that '{truncate(selector)}' finds is no frame")
        await frame.wait_for_load_state("load", timeout=seconds * 1000)
        self.frame = frame

    async def run_script(self, column: str, script: str, seconds: float) -> None:
        call = _SCRIPT.replace("MOST", str(self._options.max_body)).replace("SCRIPT", script)
        try:
            async with asyncio.timeout(seconds):
                text: object = await self.frame.evaluate(call)
        except TimeoutError:
            raise VisitFailed(f"{_SCRIPT_FAILED}: it ran for more than {seconds:g} s") from None
        try:
            self._kept[column] = json.loads(text) if isinstance(text, str) else None
        except ValueError:  # the page has changed JSON
            raise VisitFailed(f"{_SCRIPT_FAILED}: its value is no JSON") from None

    async def dismiss_consent(self, seconds: float) -> None:
        self._tab.dirty = True  # the answer is kept in the browser
        await dismiss_consent(self, seconds)

    async def perform_prompt(self, prompt: str) -> None:
        await perform_prompt(self, prompt, self._endpoint)

    async def wait_for_captured(self, pattern: str, at_least: int, seconds: float) -> None:
        if self._captured:
            await self._captured.wait(pattern, at_least, seconds)

    def keep(self, column: str, value: bytes) -> None:
        self._kept[column] = value

    async def run(self, traces: Sequence[Action]) -> list[Page]:
        """Return the page, or one for every snapshot; raise VisitRedirected, VisitFailed or BrowserCrashed."""
        await self._add_cookies()
        if patterns := [action.captures for action in traces if action.captures]:
            self._captured = CapturedAnswers(self.page, self._options, patterns)
        try:
            await self._perform_all(traces)
        except VisitFailed as failure:
            failure.status = self._get_status()
            raise
        finally:
            if self._captured:
                self._captured.close()
        if len(self._snapshots) == 1:
            return self._snapshots
        return [replace(page, position=position) for position, page in enumerate(self._snapshots, start=1)]

    async def _perform_all(self, traces: Sequence[Action]) -> None:
        if not (traces and isinstance(traces[0], Open)):
            await self.go(self.address)
        for number, action in enumerate(traces, start=1):
            await self._perform(number, action)
        if self._captured:
            await self._take_captured(self._captured)
        elif not self._snapshots:
            await self.snapshot()

    async def _take_captured(self, captured: CapturedAnswers) -> None:
        """Add the captured documents; a page that is an error, a block or a login is read itself."""
        if (signs := self._options.logged_out) and is_logged_out(page := await self.read(), signs):
            self._snapshots.append(page)
            return
        try:
            documents = await captured.take()
        except VisitFailed:
            page = await self.read()
            if self._snapshots or (page.ok and not find_block(page)):
                raise
            self._snapshots.append(page)
        else:
            kept = dict(self._kept) or None
            self._snapshots += [replace(page, requested_url=self.address, kept=kept) for page in documents]

    async def _add_cookies(self) -> None:
        if self._cookies:
            cookies: Any = [parse_cookie(each) for each in self._cookies]
            try:
                await self.page.context.add_cookies(cookies)
            except PlaywrightError as error:
                raise BrowserCrashed from error

    async def _create_redirect(self, address: str) -> Exception:
        try:
            cookies = [format_cookie(each) for each in await self.page.context.cookies()]
        except PlaywrightError:
            return BrowserCrashed()
        return VisitRedirected(address, cookies, time.monotonic() - self._started)

    async def _perform(self, number: int, action: Action) -> None:
        try:
            await action.perform(self)
        except PlaywrightTimeout:
            within = f"within {action.patience():g} s"
            raise VisitFailed(f"{_describe_action(number, action)}: nothing to act on came {within}") from None
        except PlaywrightError as error:
            if self._is_crash(error):
                raise BrowserCrashed from error
            raise VisitFailed(f"{_describe_action(number, action)}: {format_error(error)}") from error
        except (VisitFailed, VisitRedirected, BrowserCrashed):
            raise
        except Exception as error:  # any other error is a failure of the page, not of the run
            description = f"{type(error).__name__}: {format_error(error)}"
            raise VisitFailed(f"{_describe_action(number, action)}: {description}") from error

    async def read(self) -> Page:
        """Read the page; wait for the end of a navigation."""
        for _ in range(_TRIES):
            try:
                script = _READ.replace("MOST", str(self._options.max_body))
                found = await asyncio.wait_for(self.evaluate(script), _READING_SECONDS)
            except TimeoutError:
                raise VisitFailed(f"the page's scripts ran for more than {_READING_SECONDS:g} s") from None
            except PlaywrightError as error:
                if self._is_crash(error):
                    raise BrowserCrashed from error
                found = None
            if found and found["ready"]:
                return self._create_page(found)
            await self._wait_until_loaded()
        raise VisitFailed("the page never stayed long enough to be read")

    async def _wait_until_loaded(self) -> None:
        try:
            await self.frame.wait_for_load_state("domcontentloaded", timeout=self._options.total_timeout * 1000)
        except PlaywrightTimeout:
            raise self._create_timeout() from None
        except PlaywrightError as error:
            if self.frame.is_detached():
                raise VisitFailed("the frame has gone from the page") from None
            raise BrowserCrashed from error
        await asyncio.sleep(0.1)

    def _create_page(self, found: dict[str, Any]) -> Page:
        if found["left"]:
            self._tab.dirty = True
        if self._tab.guard.exceeded or found["size"] > self._options.max_body:
            raise self._create_size_failure()
        url = canonical_url(self.frame.url) or canonical_url(self.page.url)  # a frame's own text has no address
        if url is None:
            raise self._describe_unsupported_address()
        if len(url) > _MAX_ADDRESS_LENGTH:
            raise VisitFailed(f"the page has given itself an address of {len(url):,} characters")
        return Page(
            self.address,
            url,
            found["status"] or self._get_status(),
            None,
            found["type"],
            "utf-8",
            found["body"].encode(),
            datetime.now(UTC),
            _list_redirects(self._response),
            format_headers(self._response),
            self._tab.guard.received,
            kept=dict(self._kept) or None,
        )

    def _get_status(self) -> int | None:
        """Return the status of the answer for the address opened last."""
        return self._response.status if self._response else None

    def _translate_error(self, error: PlaywrightError, target: str) -> Exception:
        if self._tab.guard.exceeded:
            return self._create_size_failure()
        if self._is_crash(error):
            return BrowserCrashed()
        code = parse_net_error(error.message)
        return self._create_failure(code, target) if code else VisitFailed(_describe_open_error(error))

    def _create_failure(self, code: str, address: str) -> VisitFailed:
        """Describe the failure of `address`, or of the address to which it led."""
        parts = urlsplit(self._tab.failed_navigation[0] if self._tab.failed_navigation else address)
        reasons = self._tab.guard.failures
        if code.startswith(GUARD_CODES) and reasons:
            reason = (
                reasons.get(f"{parts.hostname}:{parts.port or _PORTS.get(parts.scheme)}") or list(reasons.values())[-1]
            )
            return VisitFailed(reason, retryable=not reason.startswith("refused"))
        return create_failure(code, parts.hostname or address)

    def _is_crash(self, error: PlaywrightError) -> bool:
        browser = self._tab.context.browser
        connected = browser is not None and browser.is_connected()
        closed = self.page.is_closed() or not connected or is_closed(error)
        return self._tab.crashed or closed or "crashed" in error.message.lower()

    def _create_timeout(self) -> VisitFailed:
        return VisitFailed(f"timed out after {self._options.total_timeout:g} s")

    def _create_size_failure(self) -> VisitFailed:
        return VisitFailed(f"the page, with all that it loads, is larger than {self._options.max_body:,} bytes")

    def _describe_unsupported_address(self) -> VisitFailed:
        failed = self._tab.failed_navigation
        if self.page.url.startswith("chrome-error:") and failed and (code := parse_net_error(failed[1])):
            return self._create_failure(code, self.address)
        if self._tab.guard.failures:
            return VisitFailed(list(self._tab.guard.failures.values())[-1])
        return VisitFailed(f"the page led to '{truncate(self.page.url)}', which is not an http or https address")


def _describe_action(number: int, action: Action) -> str:
    name = next((each.name for each in ACTIONS if each.thing is type(action)), type(action).__name__)
    return f"action {number}, {name} {action.title()}".rstrip()


def _describe_open_error(error: PlaywrightError) -> str:
    line = format_error(error)
    if "Download is starting" in line:
        return "the address is a download, not a page"
    return f"the browser could not open the page: {line}"


def _list_redirects(response: Response | None) -> tuple[str, ...]:
    """Return the addresses between the requested one and the last."""
    found: list[str] = []
    request = response.request.redirected_from if response else None
    while request:
        found.append(request.url)
        request = request.redirected_from
    return tuple(reversed(found[:-1]))
