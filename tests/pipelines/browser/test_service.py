"""A browser service over CDP: a Chromium of this machine with a debugging port stands in for it."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest

from pipelines.browser.actions import Browsing
from pipelines.browser.chromium import close_chromium
from pipelines.browser.fetcher import BrowserFetcher
from pipelines.browser.model import BrowserOptions
from pipelines.fetch import FetchOptions, Page
from tests.pipelines.browser.test_attacks import listening
from tests.support.browser import OPTIONS
from tests.support.browser_site import BrowserSite
from tests.support.processes import command_line

KEY = "canary-7f3a/9c+b"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a browser listens for CDP."""
    profile = tmp_path_factory.mktemp("profile")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    command = [BrowserOptions().find_executable(), *flags, "about:blank"]
    # in a group of its own: what is called by the browser's name may be a script that starts it
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as browser:
        found = (re.search(r"DevTools listening on (\S+)", line) for line in browser.stderr)
        address = next(match[1] for match in found if match)
        reading = threading.Thread(target=browser.stderr.read)
        reading.start()
        yield address
        os.killpg(browser.pid, signal.SIGTERM)
        reading.join()


def visit(url: str, service: str, options: FetchOptions = OPTIONS) -> Page:
    with BrowserFetcher(options, Browsing(), BrowserOptions(service=service, service_key=KEY)) as fetcher:
        [(page, _)] = fetcher.fetch([(url, None)])
    return page


@pytest.mark.long
def test_pages_come_from_the_service_whose_key_is_there(browser_site: BrowserSite, service: str) -> None:
    page = visit(f"{browser_site.url}/one", service)
    assert (page.status, page.error, b"One, by script" in page.body) == (200, None, True)


def test_images_are_not_loaded_there_either(browser_site: BrowserSite, service: str) -> None:
    browser_site.requests.clear()
    visit(f"{browser_site.url}/media", service)
    assert browser_site.requests["/i.png"] == 0


REFUSED = "refused: {} is a loopback address, which pages are not fetched from"


def test_addresses_of_its_requests_are_checked(browser_site: BrowserSite, service: str) -> None:
    page = visit(f"{browser_site.url}/two", service, FetchOptions(retries=0))
    assert page.error == REFUSED.format("127.0.0.1")


def test_where_a_redirect_leads_is_checked_before_it_is_asked(browser_site: BrowserSite, service: str) -> None:
    with listening("127.0.0.2") as victim:
        url = f"{browser_site.url}/elsewhere?http://{victim.place}/"
        page = visit(url, service, FetchOptions(allow_networks=("127.0.0.1/32",), retries=0))
    assert (page.error, page.body) == (REFUSED.format("127.0.0.2"), b"")
    assert victim.heard == []


def test_the_key_shows_nowhere(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.DEBUG)
    page = visit("http://127.0.0.1:9/", "ws://127.0.0.1:1/session")
    assert "ws://127.0.0.1:1/session" in (page.error or "")
    shown = caplog.text + "".join(capfd.readouterr()) + repr(BrowserOptions(service_key=KEY))
    assert KEY not in shown
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and KEY in "\0".join(command_line(int(pid)))]


def test_the_credential_in_the_environment_makes_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEEL_DEV_API_KEY", KEY)
    monkeypatch.setenv("PATH", "/nonexistent")
    options = BrowserOptions.from_environment()
    options.check()
    assert (options.service, options.service_key) == ("wss://connect.steel.dev", KEY)


@pytest.fixture(autouse=True, scope="module")
def _end() -> Iterator[None]:
    yield
    close_chromium()
