"""The browser of a worker process: Chromium on this machine, or a browser service over CDP."""

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

from pipelines.browser.failures import BrowserCrashed, format_error
from pipelines.browser.model import BrowserOptions, NoBrowser

Result = TypeVar("Result")

_IDLE_SECONDS = 30.0  # keep the browser between two passes of a pipeline
_CLOSING_SECONDS = 10.0
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # only the proxies of contexts lead out: the default proxy does not exist, and no name is resolved
    "--proxy-server=socks5://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--js-flags=--max-old-space-size=512",
)
_NO_IMAGES = ("--blink-settings=imagesEnabled=false", "--disable-remote-fonts", "--mute-audio")


class Chromium:
    """A browser and its event loop, in a separate thread; it is started on demand and restarted after a crash."""

    def __init__(self, options: BrowserOptions, images: bool) -> None:
        self.options = options
        self.images = images
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="browser", daemon=True)
        self._thread.start()
        self._start_lock = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._users = 0
        self._idle_timer: asyncio.TimerHandle | None = None

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Start `work` on the browser's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def acquire(self) -> None:
        """Keep the browser running until `release` is called."""
        self._users += 1
        if self._idle_timer:
            self._idle_timer.cancel()

    async def release(self) -> None:
        """Stop the browser after an idle time unless another user acquires it."""
        self._users -= 1
        if self._users == 0:
            self._idle_timer = self._loop.call_later(_IDLE_SECONDS, self._stop_when_idle)

    async def get_browser(self) -> Browser:
        """Return the browser, started if necessary; raise NoBrowser or BrowserCrashed."""
        async with self._start_lock:
            if self._browser is None or not self._browser.is_connected():
                await self.stop()
                self._playwright = await async_playwright().start()
                self._browser = await self._launch(self._playwright)
            return self._browser

    async def discard(self, browser: Browser) -> None:
        """Stop a browser that no longer responds, unless it has been replaced already."""
        async with self._start_lock:
            if self._browser is browser:
                await self.stop()

    async def stop(self) -> None:
        """Stop the browser and Playwright's driver."""
        browser, self._browser = self._browser, None
        playwright, self._playwright = self._playwright, None
        for close in (browser and browser.close, playwright and playwright.stop):
            if close:
                with suppress(PlaywrightError, TimeoutError):  # it may have crashed
                    await asyncio.wait_for(close(), _CLOSING_SECONDS)

    def close(self) -> None:
        """Stop the browser and its event loop."""
        self.submit(self.stop()).result(3 * _CLOSING_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_SECONDS)
        self._loop.close()

    def _stop_when_idle(self) -> None:
        self._idle_timering = self._loop.create_task(self.stop())

    async def _launch(self, playwright: Playwright) -> Browser:
        if self.options.service_key:
            return await _connect_service(playwright, self.options)
        path = self.options.find_executable()
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
            raise BrowserCrashed(f"{path} could not be started: {format_error(error)}") from None


async def _connect_service(playwright: Playwright, options: BrowserOptions) -> Browser:
    key, service = options.service_key or "", options.service
    address = f"{service}{'&' if '?' in service else '?'}apiKey={quote(key, safe='')}"
    try:
        return await playwright.chromium.connect_over_cdp(address, timeout=60_000)
    except PlaywrightError:  # whose message contains the address with the key
        raise BrowserCrashed(f"the browser service at {service} cannot be reached, or refuses the key") from None


_lock = threading.Lock()
_current: Chromium | None = None


def get_chromium(options: BrowserOptions, images: bool) -> Chromium:
    """Return this process's browser; close one that has other options."""
    global _current
    with _lock:
        if _current and (_current.options, _current.images) != (options, images):
            _current.close()
            _current = None
        _current = _current or Chromium(options, images)
        return _current


def close_chromium() -> None:
    """Close this process's browser."""
    global _current
    with _lock:
        if _current:
            _current.close()
            _current = None
