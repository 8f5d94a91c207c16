"""Options of the browser, which are the machine's or the service's, never a pipeline's.

This module does not import Playwright, which takes long to load.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

# the first has no code for windows: a page takes about half the CPU time of the others
_WITHOUT_WINDOWS = "chromium-headless-shell"
_WITH_WINDOWS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SERVICE = "wss://connect.steel.dev"


class NoBrowser(Exception):
    """No browser is available; the message names the package or setting."""


@dataclass(frozen=True, slots=True)
class BrowserOptions:
    """The path of Chromium, if it is not found by name, and the number of pages that a worker opens at a time.

    With a `service_key` the browser is the remote one at `service`, controlled over CDP.
    """

    path: str | None = None
    pages: int = 4
    service: str = _SERVICE
    service_key: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls) -> Self:
        """Read the SPINDLE_CHROMIUM and SPINDLE_BROWSER_* settings and the credential STEEL_DEV_API_KEY."""
        return cls(
            os.environ.get("SPINDLE_CHROMIUM") or None,
            int(os.environ.get("SPINDLE_BROWSER_PAGES") or 4),
            os.environ.get("SPINDLE_BROWSER_SERVICE") or _SERVICE,
            os.environ.get("STEEL_DEV_API_KEY") or None,
        )

    def find_executable(self, shows_windows: bool = False) -> str:
        """Return the path of Chromium, of one that can show windows where it must; raise NoBrowser."""
        if self.path:
            if shows_windows and Path(self.path).name == _WITHOUT_WINDOWS:
                raise NoBrowser(
                    f"{self.path}, which SPINDLE_CHROMIUM names, shows no windows: name a Chromium or Chrome"
                )
            if shutil.which(self.path):
                return self.path
            raise NoBrowser(f"SPINDLE_CHROMIUM names '{self.path}', which is not a program")
        names = _WITH_WINDOWS if shows_windows else (_WITHOUT_WINDOWS, *_WITH_WINDOWS)
        found = next(filter(None, map(shutil.which, names)), None)
        if found is None and shows_windows:
            raise NoBrowser("there is no Chromium that shows windows: install Chromium or Chrome, or give a state file")
        if found is None:
            raise NoBrowser(
                "the pipeline needs a browser, and there is none: install Chromium (on Debian and Ubuntu: "
                "apt-get install chromium-headless-shell), or set SPINDLE_CHROMIUM to the path of a Chromium or Chrome"
            )
        return found

    def check(self) -> None:
        """Raise NoBrowser when there is neither a service key nor Chromium."""
        if self.service_key is None:
            self.find_executable()


def find_missing_browser() -> str | None:
    """Return a sentence that says how to install a browser; None when there is one."""
    try:
        BrowserOptions.from_environment().check()
    except NoBrowser as error:
        return str(error)
    return None
