"""The browser of a worker process: the machine's Chromium, or a browser service over CDP."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

from playwright.async_api import Browser, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from pipelines.browser.failures import Crashed, first_line
from pipelines.browser.options import BrowserOptions, NoBrowser

Result = TypeVar("Result")

_IDLE_SECONDS = 30.0  # between two passes of a pipeline a browser is worth keeping
_CLOSING_SECONDS = 10.0
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # nothing goes out but through a context's own gate: the default way leads nowhere, and no name is looked up
    "--proxy-server=socks5://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--js-flags=--max-old-space-size=512",
)
_NO_IMAGES = ("--blink-settings=imagesEnabled=false", "--disable-remote-fonts", "--mute-audio")


class Chromium:
    """One browser on an event loop in a thread of its own; started when it is needed, and again when it has died."""

    def __init__(self, options: BrowserOptions, images: bool) -> None:
        self.options = options
        self.images = images
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="browser", daemon=True)
        self._thread.start()
        self._starting = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._users = 0
        self._rest: asyncio.TimerHandle | None = None

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Begins `work` on the browser's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def join(self) -> None:
        """Somebody needs the browser for a while."""
        self._users += 1
        if self._rest:
            self._rest.cancel()

    async def leave(self) -> None:
        """Nobody needs the browser for now: unless somebody does soon, it is ended."""
        self._users -= 1
        if self._users == 0:
            self._rest = self._loop.call_later(_IDLE_SECONDS, self._end_idle)

    async def browser(self) -> Browser:
        """The browser, running; raises NoBrowser and Crashed."""
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                await self.end()
                self._playwright = await async_playwright().start()
                self._browser = await self._started(self._playwright)
            return self._browser

    async def lost(self, browser: Browser) -> None:
        """`browser` answers no more: unless another one is there already, the next is new."""
        async with self._starting:
            if self._browser is browser:
                await self.end()

    async def end(self) -> None:
        """Ends the browser, if it is there, and all that belongs to it."""
        browser, self._browser = self._browser, None
        playwright, self._playwright = self._playwright, None
        for ending in (browser and browser.close, playwright and playwright.stop):
            if ending:
                with suppress(PlaywrightError, TimeoutError):  # what has died already needs no ending
                    await asyncio.wait_for(ending(), _CLOSING_SECONDS)

    def close(self) -> None:
        """Ends the browser and the loop."""
        self.submit(self.end()).result(3 * _CLOSING_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_SECONDS)
        self._loop.close()

    def _end_idle(self) -> None:
        self._resting = self._loop.create_task(self.end())

    async def _started(self, playwright: Playwright) -> Browser:
        if self.options.service_key:
            return await _service(playwright, self.options)
        path = self.options.executable()
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        flags = [*_FLAGS, *sandbox, *(() if self.images else _NO_IMAGES)]
        try:
            return await playwright.chromium.launch(executable_path=path, args=flags, headless=True, timeout=60_000)
        except PlaywrightError as error:
            if "sandbox" in str(error):
                raise NoBrowser(
                    f"{path} has no sandbox to run in: allow unprivileged user namespaces on this machine, "
                    "or install the distribution's own Chromium"
                ) from None
            raise Crashed(f"{path} could not be started: {first_line(error)}") from None


async def _service(playwright: Playwright, options: BrowserOptions) -> Browser:
    key, service = options.service_key or "", options.service
    address = f"{service}{'&' if '?' in service else '?'}apiKey={quote(key, safe='')}"
    try:
        return await playwright.chromium.connect_over_cdp(address, timeout=60_000)
    except PlaywrightError:  # its message has the address, and with it the key
        raise Crashed(f"the browser service at {service} could not be reached, or refuses the key") from None


_lock = threading.Lock()
_current: Chromium | None = None


def chromium(options: BrowserOptions, images: bool) -> Chromium:
    """This process's browser; one that was started otherwise is ended."""
    global _current
    with _lock:
        if _current and (_current.options, _current.images) != (options, images):
            _current.close()
            _current = None
        _current = _current or Chromium(options, images)
        return _current


def shut_down() -> None:
    """Ends this process's browser."""
    global _current
    with _lock:
        if _current:
            _current.close()
            _current = None
