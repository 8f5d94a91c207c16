"""A tab in a separate browser context, used for one visit after another without state of earlier visits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

from playwright.async_api import Browser, BrowserContext, CDPSession, Frame, Page, Request, Route
from playwright.async_api import Error as PlaywrightError

from pipelines.browser.failures import BrowserCrashed
from pipelines.browser.socks_proxy import SocksProxy
from pipelines.fetch import FetchOptions, canonical_url
from pipelines.fetch.urls import origin
from pipelines.http_client.guard import Guard, GuardRefused

Result = TypeVar("Result")

_BLANK = "about:blank"
_MAX_VISITS = 100  # then the context is closed, with the memory that it holds
_CLOSING_SECONDS = 5.0
_LEAVING_SECONDS = 1.0
_SUBRESOURCE_FACTOR = 3  # scripts and styles may be this many times as large as a page
_IMAGE_TYPES = frozenset(("image", "font", "media"))


@dataclass
class Tab:
    """A tab, opened on the browser's event loop, whose requests pass through `guard`.

    `failed_navigation` is the address and Chromium's code of the visit's last failed navigation. While the tab opens
    the address in `opening`, a redirect of it is stopped, and its location is in `redirect`. A `dirty` tab has state,
    like local storage, that cannot be cleared.
    """

    page: Page
    context: BrowserContext
    devtools: CDPSession
    frame: str
    guard: SocksProxy | RequestFilter
    visits: int = 0
    crashed: bool = False
    dirty: bool = False
    failed_navigation: tuple[str, str] | None = None
    opening: str | None = None
    redirect: str | None = None
    _opening_id: str | None = None  # CDP's id of the request for `opening`
    _working: asyncio.Future[Any] | None = None

    @classmethod
    async def open(cls, browser: Browser, options: FetchOptions, images: bool, remote: bool) -> Self:
        stored: Any = {"origins": json.loads(options.local_storage)} if options.local_storage else None
        guard = Guard(options.allow_networks, options.own_endpoints)
        if remote:
            request_guard, proxy = RequestFilter(guard, images), None
        else:
            request_guard = SocksProxy(guard, options.connect_timeout, (1 + _SUBRESOURCE_FACTOR) * options.max_body)
            proxy = {"server": await request_guard.open()}
        try:
            context = await browser.new_context(
                proxy=proxy,  # pyright: ignore[reportArgumentType]
                user_agent=_create_user_agent(options, browser),
                accept_downloads=False,
                service_workers="block",
                storage_state=stored,
            )
            if isinstance(request_guard, RequestFilter):
                await context.route("**/*", request_guard.handle)
            page = await context.new_page()
            devtools = await context.new_cdp_session(page)
            target = await devtools.send("Target.getTargetInfo")
        except BaseException:
            await request_guard.close()
            raise
        tab = cls(page, context, devtools, target["targetInfo"]["targetId"], request_guard)
        await tab._add_listeners(images)
        return tab

    async def _add_listeners(self, images: bool) -> None:
        self.context.on("page", self._close_popup)
        self.page.on("crash", self._record_crash)
        self.page.on("requestfailed", self._record_failure)
        patterns = [{"resourceType": "Document"}]
        if not images and isinstance(self.guard, SocksProxy):  # no flag of Chromium turns off media
            patterns.append({"resourceType": "Media"})
        self.devtools.on("Fetch.requestPaused", self._handle_paused_request)
        await self.devtools.send("Fetch.enable", {"patterns": patterns})

    @property
    def is_reusable(self) -> bool:
        return not (self.crashed or self.dirty) and self.visits < _MAX_VISITS and not self.page.is_closed()

    def begin_visit(self) -> None:
        """Reset the state of the previous visit."""
        self.visits += 1
        self.failed_navigation = self.redirect = self._opening_id = None
        self.guard.reset()

    async def run_until_crash(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Return the result of `work`; raise BrowserCrashed when the tab crashes, which not every call reports."""
        self._working = asyncio.ensure_future(work)
        try:
            return await self._working
        except asyncio.CancelledError:
            if self.crashed:
                raise BrowserCrashed from None
            raise

    async def suspend(self) -> None:
        """Stop scripts and clear cookies between visits.

        Raise PlaywrightError, or TimeoutError when the scripts cannot be stopped.
        """
        await self._enable_scripts(False)
        await self.context.clear_cookies()

    async def resume(self, address: str) -> None:
        """Allow scripts again, after leaving a page of another site; raise the errors of `suspend`."""
        if self.page.url != _BLANK and origin(self.page.url) != origin(address):  # takes a fifth of a visit
            await self.page.goto(_BLANK, timeout=_LEAVING_SECONDS * 1000)
        await self._enable_scripts(True)

    async def _enable_scripts(self, enabled: bool) -> None:
        setting = self.devtools.send("Emulation.setScriptExecutionDisabled", {"value": not enabled})
        await asyncio.wait_for(setting, _LEAVING_SECONDS)

    async def close(self) -> None:
        with suppress(PlaywrightError, TimeoutError):  # the context ends with its browser
            await asyncio.wait_for(self.context.close(), _CLOSING_SECONDS)
        await self.guard.close()

    def _record_crash(self, _: Page) -> None:
        self.crashed = True
        if self._working:
            self._working.cancel()

    def _record_failure(self, request: Request) -> None:
        if request.is_navigation_request() and request.frame == self.page.main_frame and request.failure:
            self.failed_navigation = request.url, request.failure

    async def _close_popup(self, popup: Page) -> None:
        if popup is not self.page:
            with suppress(PlaywrightError):  # it may have closed itself
                await popup.close()

    async def _handle_paused_request(self, event: dict[str, Any]) -> None:
        """Block media; stop a redirect of the opening request; continue other documents."""
        request, address = {"requestId": event["requestId"]}, canonical_url(event["request"]["url"])
        command = "Fetch.continueRequest"
        if event["resourceType"] == "Media":
            command, request["errorReason"] = "Fetch.failRequest", "BlockedByClient"
        elif self.opening and address and event["frameId"] == self.frame and self._is_redirect(event):
            command, request["errorReason"] = "Fetch.failRequest", "Aborted"
            self.redirect = address
        with suppress(PlaywrightError):  # the request may have ended
            await self.devtools.send(command, request)

    def _is_redirect(self, event: dict[str, Any]) -> bool:
        """Return whether the event is a redirect of the request for `opening`, and not of a script's navigation."""
        if "redirectedRequestId" in event:
            return event["redirectedRequestId"] == self._opening_id
        # compare decoded: Chromium encodes more characters
        if self._opening_id is None and unquote(event["request"]["url"]) == unquote(self.opening or ""):
            self._opening_id = event["requestId"]
        return False


def _create_user_agent(options: FetchOptions, browser: Browser) -> str:
    """Return the pipeline's user agent, or Chromium's followed by the crawler's name."""
    if options.user_agent != FetchOptions().user_agent:
        return options.user_agent
    chromium = f"HeadlessChrome/{browser.version.partition('.')[0]}.0.0.0"
    engine = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
    return f"{engine} {chromium} Safari/537.36 {options.user_agent}"


async def find_target(frame: Frame, devtools: CDPSession) -> tuple[CDPSession, str] | None:
    """Return the session and the id of a frame of the page that `devtools` is for; None for a frame that was removed.

    A frame of another site has its own process and its own session.
    """
    path: list[Frame] = []
    while frame.parent_frame:
        try:
            session = await frame.page.context.new_cdp_session(frame)
        except PlaywrightError:  # it is in the process of its parent
            path.append(frame)
            frame = frame.parent_frame
        else:
            break
    else:
        session = devtools
    tree: Any = (await session.send("Page.getFrameTree"))["frameTree"]
    for inner in reversed(path):
        tree = _find_child(tree, inner)
        if tree is None:
            return None
    return session, tree["frame"]["id"]


def _find_child(tree: dict[str, Any], frame: Frame) -> dict[str, Any] | None:
    """Return the child of a tree for a frame: of those with its name and address, the one at its place."""
    siblings = frame.parent_frame.child_frames if frame.parent_frame else []
    alike = [each for each in siblings if (each.name, each.url) == (frame.name, frame.url)]
    children = [each for each in tree.get("childFrames", ()) if _describe(each["frame"]) == (frame.name, frame.url)]
    place = alike.index(frame) if frame in alike else len(children)
    return children[place] if place < len(children) else None


def _describe(frame: dict[str, Any]) -> tuple[str, str]:
    return frame.get("name", ""), frame["url"] + frame.get("urlFragment", "")


@dataclass
class RequestFilter:
    """The filter of one page at a time."""

    guard: Guard
    images: bool
    received: int = field(default=0, init=False)
    exceeded: bool = field(default=False, init=False)
    failures: dict[str, str] = field(default_factory=dict[str, str], init=False)

    async def close(self) -> None:
        self.failures.clear()

    def reset(self) -> None:
        self.failures.clear()

    async def handle(self, route: Route) -> None:
        request = route.request
        if request.resource_type in _IMAGE_TYPES and not self.images:
            await route.abort("blockedbyclient")
        elif reason := await self.find_refusal(request.url):
            self.failures[request.url] = reason
            await route.abort("addressunreachable")
        else:
            await route.continue_()

    async def find_refusal(self, url: str) -> str | None:
        """Return why the guard refuses `url`, or None. Redirects are checked only after the browser followed them."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            return None if parts.scheme in ("data", "blob", "about") else f"refused: {parts.scheme} is not the web"
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            await asyncio.to_thread(self.guard.resolve, host, port)
        except GuardRefused as refused:
            return f"refused: {refused.describe_for(host)}"
        except OSError:
            return None  # the name may exist in the service's network only
        return None
