"""The processes behind visits: none stays when its worker dies, and memory is bounded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest

from pipelines.browser.actions import Browsing
from pipelines.browser.fetcher import BrowserFetcher
from tests.support.browser import OPTIONS
from tests.support.browser_site import BrowserSite
from tests.support.processes import command_line, descendants, running
from tests.support.service import PATIENCE_SECONDS, wait_until

WORKER = """
import sys, time
from pipelines.browser.actions import Browsing
from pipelines.browser.fetcher import BrowserFetcher
from pipelines.fetch import FetchOptions
fetcher = BrowserFetcher(FetchOptions(allow_networks=("127.0.0.0/8",)), Browsing())
with fetcher:
    for page, _ in fetcher.fetch([(sys.argv[1], None)] * 2):
        print(page.status, flush=True)
        time.sleep(600)
"""


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_dies_leaves_no_browser(browser_site: BrowserSite, number: signal.Signals) -> None:
    command = [sys.executable, "-c", WORKER, f"{browser_site.url}/one"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout.readline() == "200\n"
        browser = descendants(worker.pid)
        assert len(browser) > 3, "Playwright's driver, Chromium and its children"
        worker.send_signal(number)
        worker.wait(PATIENCE_SECONDS)
        wait_until(lambda: not running(browser), PATIENCE_SECONDS)


def megabytes(pids: list[int]) -> float:
    """Memory that is the processes' own: what they share is counted once, by halves and thirds."""
    total = 0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            total += psutil.Process(pid).memory_full_info().pss
    return total / 2**20


@pytest.mark.variant
def test_memory_is_bounded_over_hundreds_of_pages(browser_site: BrowserSite) -> None:
    measured: list[float] = []
    with BrowserFetcher(OPTIONS, Browsing()) as fetcher:
        requests = ((f"{browser_site.url}/shop?{number}", number) for number in range(600))
        for count, (page, _) in enumerate(fetcher.fetch(requests), start=1):
            assert page.ok
            if count % 50 == 0:
                measured.append(megabytes([os.getpid(), *descendants(os.getpid())]))
    print(" ".join(f"{each:.0f}" for each in measured), "MB")
    early, late = sorted(measured[3:8])[2], sorted(measured[-5:])[2]
    assert late < 1.25 * early + 50


@pytest.mark.long
def test_a_storm_of_crashes_loses_no_page(browser_site: BrowserSite) -> None:
    def renderers() -> list[int]:
        return [pid for pid in descendants(os.getpid()) if "--type=renderer" in command_line(pid)]

    paths = [f"{browser_site.url}/two?{number}" for number in range(100)]
    with BrowserFetcher(replace(OPTIONS, retries=3), Browsing()) as fetcher:
        came: list[str] = []
        for page, path in fetcher.fetch((path, path) for path in paths):
            came.append(path)
            assert page.ok, page.error
            if len(came) % 10 == 0:
                for pid in renderers():
                    with suppress(ProcessLookupError):  # it has ended of itself
                        os.kill(pid, signal.SIGKILL)
    assert sorted(came) == sorted(paths)
