"""Which browser is driven, and how: settings of the machine or the service, never of a pipeline."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import Self

# the first is Chromium without windows to draw: a page costs about half of the processor's time that the others take
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SERVICE = "wss://connect.steel.dev"


class NoBrowser(Exception):
    """There is no browser to drive; the message says what to install or set."""


@dataclass(frozen=True, slots=True)
class BrowserOptions:
    """`path` is Chromium's where it is not found by name, `pages` how many a worker has open at a time.

    With a `service_key` the browser is a remote one, spoken to over CDP at `service`.
    """

    path: str | None = None
    pages: int = 4
    service: str = _SERVICE
    service_key: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls) -> Self:
        """SPINDLE_CHROMIUM, SPINDLE_BROWSER_PAGES, SPINDLE_BROWSER_SERVICE, and the credential STEEL_DEV_API_KEY."""
        return cls(
            os.environ.get("SPINDLE_CHROMIUM") or None,
            int(os.environ.get("SPINDLE_BROWSER_PAGES") or 4),
            os.environ.get("SPINDLE_BROWSER_SERVICE") or _SERVICE,
            os.environ.get("STEEL_DEV_API_KEY") or None,
        )

    def executable(self) -> str:
        """Chromium's path; raises NoBrowser."""
        if self.path:
            if shutil.which(self.path):
                return self.path
            raise NoBrowser(f"SPINDLE_CHROMIUM names '{self.path}', which is not a program")
        found = next(filter(None, map(shutil.which, _NAMES)), None)
        if found is None:
            raise NoBrowser(
                "the pipeline needs a browser, and there is none: install Chromium (on Debian and Ubuntu: "
                "apt-get install chromium-headless-shell), or set SPINDLE_CHROMIUM to the path of a Chromium or Chrome"
            )
        return found

    def check(self) -> None:
        """Raises NoBrowser when no browser can be had."""
        if self.service_key is None:
            self.executable()
