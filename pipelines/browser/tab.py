"""A page to visit with, in a context of its own; used for one visit after another, without what the last one left."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import unquote

from playwright.async_api import Browser, BrowserContext, CDPSession, Page, Request
from playwright.async_api import Error as PlaywrightError

from pipelines.browser.failures import Crashed
from pipelines.browser.filter import Filter
from pipelines.browser.gate import Gate
from pipelines.fetch import FetchOptions, Guard, canonical_url
from pipelines.fetch.urls import origin

Result = TypeVar("Result")

_BLANK = "about:blank"
_MOST_VISITS = 100  # what a context gathers in memory goes with it
_CLOSING_SECONDS = 5.0
_LEAVING_SECONDS = 1.0
_MEGABYTES_BESIDE = 3  # scripts and styles may weigh so many times what a page may


@dataclass
class Tab:
    """Made by `open`, on the browser's loop; `way` is what its requests pass, `lost` the last page that this visit
    could not have: its address, and what Chromium calls the reason. While it is `opening` an address, a redirect of
    that is not followed but stops the page; `led` is where to.
    """

    page: Page
    context: BrowserContext
    devtools: CDPSession
    frame: str
    way: Gate | Filter
    visits: int = 0
    crashed: bool = False
    soiled: bool = False
    lost: tuple[str, str] | None = None
    opening: str | None = None
    led: str | None = None
    _asked: str | None = None  # CDP's id of the request for what it is opening
    _working: asyncio.Future[Any] | None = None

    @classmethod
    async def open(cls, browser: Browser, options: FetchOptions, images: bool, remote: bool) -> Self:
        guard = Guard(options.allow_networks)
        if remote:
            way, proxy = Filter(guard, images), None
        else:
            way = Gate(guard, options.connect_timeout, (1 + _MEGABYTES_BESIDE) * options.max_body)
            proxy = {"server": await way.open()}
        try:
            context = await browser.new_context(
                proxy=proxy,  # pyright: ignore[reportArgumentType]
                user_agent=_user_agent(options, browser),
                accept_downloads=False,
                service_workers="block",
            )
            if isinstance(way, Filter):
                await context.route("**/*", way.handle)
            page = await context.new_page()
            devtools = await context.new_cdp_session(page)
            target = await devtools.send("Target.getTargetInfo")
        except BaseException:
            await way.close()
            raise
        tab = cls(page, context, devtools, target["targetInfo"]["targetId"], way)
        await tab._guard_against_surprises(images)
        return tab

    async def _guard_against_surprises(self, images: bool) -> None:
        self.context.on("page", self._close_popup)
        self.page.on("crash", self._crash)
        self.page.on("requestfailed", self._lose)
        patterns = [{"resourceType": "Document"}]
        if not images and isinstance(self.way, Gate):  # Chromium has flags for images and fonts, but none for media
            patterns.append({"resourceType": "Media"})
        self.devtools.on("Fetch.requestPaused", self._look_at)
        await self.devtools.send("Fetch.enable", {"patterns": patterns})

    @property
    def usable(self) -> bool:
        return not (self.crashed or self.soiled) and self.visits < _MOST_VISITS and not self.page.is_closed()

    def begin(self) -> None:
        """Another visit."""
        self.visits += 1
        self.lost = self.led = self._asked = None
        self.way.next_page()

    async def unless_crashed(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` gives; raises Crashed as soon as the tab has died, which not every call to it is told."""
        self._working = asyncio.ensure_future(work)
        try:
            return await self._working
        except asyncio.CancelledError:
            if self.crashed:
                raise Crashed from None
            raise

    async def rest(self) -> None:
        """Stops the page's scripts and forgets cookies; whatever else a page has left makes the tab `soiled`.

        Raises PlaywrightError, and TimeoutError where the scripts cannot be stopped.
        """
        await self._let_scripts_run(False)
        await self.context.clear_cookies()

    async def wake(self, address: str) -> None:
        """Ready for a visit of `address`: another site's page is left before scripts may run; raises as `rest` does."""
        if self.page.url != _BLANK and origin(self.page.url) != origin(address):  # it costs a fifth of a visit
            await self.page.goto(_BLANK, timeout=_LEAVING_SECONDS * 1000)
        await self._let_scripts_run(True)

    async def _let_scripts_run(self, allowed: bool) -> None:
        setting = self.devtools.send("Emulation.setScriptExecutionDisabled", {"value": not allowed})
        await asyncio.wait_for(setting, _LEAVING_SECONDS)

    async def close(self) -> None:
        with suppress(PlaywrightError, TimeoutError):  # a context that does not close goes with its browser
            await asyncio.wait_for(self.context.close(), _CLOSING_SECONDS)
        await self.way.close()

    def _crash(self, _: Page) -> None:
        self.crashed = True
        if self._working:
            self._working.cancel()

    def _lose(self, request: Request) -> None:
        if request.is_navigation_request() and request.frame == self.page.main_frame and request.failure:
            self.lost = request.url, request.failure

    async def _close_popup(self, popup: Page) -> None:
        if popup is not self.page:
            with suppress(PlaywrightError):  # it may have closed itself
                await popup.close()

    async def _look_at(self, event: dict[str, Any]) -> None:
        """Media goes nowhere, and a document on."""
        request, address = {"requestId": event["requestId"]}, canonical_url(event["request"]["url"])
        way = "Fetch.continueRequest"
        if event["resourceType"] == "Media":
            way, request["errorReason"] = "Fetch.failRequest", "BlockedByClient"
        elif self.opening and address and event["frameId"] == self.frame and self._is_redirect(event):
            way, request["errorReason"] = "Fetch.failRequest", "Aborted"
            self.led = address
        with suppress(PlaywrightError):  # the page may have gone on meanwhile
            await self.devtools.send(way, request)

    def _is_redirect(self, event: dict[str, Any]) -> bool:
        """Whether what is being opened redirects; its request is remembered, for scripts may go elsewhere meanwhile."""
        if "redirectedRequestId" in event:
            return event["redirectedRequestId"] == self._asked
        # compared decoded: Chromium encodes more characters than others do
        if self._asked is None and unquote(event["request"]["url"]) == unquote(self.opening or ""):
            self._asked = event["requestId"]
        return False


def _user_agent(options: FetchOptions, browser: Browser) -> str:
    """What the pipeline says; by default the browser's own, with the crawler's name after it."""
    if options.user_agent != FetchOptions().user_agent:
        return options.user_agent
    chromium = f"HeadlessChrome/{browser.version.partition('.')[0]}.0.0.0"
    engine = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
    return f"{engine} {chromium} Safari/537.36 {options.user_agent}"
