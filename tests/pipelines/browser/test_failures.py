"""What becomes of pages that the browser cannot open: sentences like those of plain HTTP, never Chromium's codes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from pipelines.browser.chromium import close_chromium
from tests.support.browser import OPTIONS, do, visited
from tests.support.browser_site import BrowserSite
from tests.support.certificates import DAY, Authority, create_certificate, serve_https

CLICK = do("click", selector="a")
UNTIL_GONE = do("wait_for", selector="body:not(:has-text('away-we-go'))", state="attached", timeout=60)


@pytest.fixture
def untrusted(tmp_path: Path) -> Iterator[str]:
    """A server with a certificate that nobody signed."""
    with serve_https(*create_certificate(tmp_path, "IP:127.0.0.1")) as url:
        yield f"{url}/"


@pytest.fixture
def closed() -> Iterator[str]:
    """An address where nobody listens, nor will: it is taken."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


def error(url: str, *traces: dict[str, Any]) -> str | None:
    [page] = visited(url, *traces, options=replace(OPTIONS, total_timeout=60))
    assert page.body == b""
    return page.error


def test_a_certificate_that_is_not_trusted(untrusted: str) -> None:
    assert error(untrusted) == "the certificate of 127.0.0.1 is not trusted"


def test_hosts_that_are_not_there_or_do_not_listen(closed: str) -> None:
    assert error("http://nowhere.invalid/") == "could not find the host nowhere.invalid"
    assert error(f"http://{closed}/") == f"could not connect to {closed}"
    assert error("http://127.0.0.1:1/") == "browsers open no pages on that port"


def test_a_redirect_or_click_reports_the_error_of_its_target(
    browser_site: BrowserSite, untrusted: str, closed: str
) -> None:
    for target, sentence in (
        (untrusted, "the certificate of 127.0.0.1 is not trusted"),
        ("http://nowhere.invalid/", "could not find the host nowhere.invalid"),
        (f"http://{closed}/", f"could not connect to {closed}"),
    ):
        assert error(f"{browser_site.url}/elsewhere?{target}") == sentence
        browser_site.pages["/link"] = f"<a href='{target}'>away-we-go</a>"
        assert error(f"{browser_site.url}/link", CLICK, UNTIL_GONE) == sentence


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """One that the browser trusts, which is started with a home of its own."""
    close_chromium()
    monkeypatch.setenv("HOME", str(tmp_path))
    yield Authority(tmp_path)
    close_chromium()


@pytest.mark.long
def test_a_certificate_that_is_trusted_but_for_another_name_or_out_of_date(authority: Authority) -> None:
    here, elsewhere = x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("other.test")
    another, late = "is for another name", "has expired, or is not valid yet"
    for name, until, fault in ((here, DAY, None), (elsewhere, DAY, another), (here, -DAY, late), (here, 9 * DAY, late)):
        with serve_https(*authority.certificate(name, until)) as url:
            [page] = visited(f"{url}/")
        assert page.error == (fault and f"the certificate of 127.0.0.1 {fault}")


def test_a_server_that_knows_no_encryption(browser_site: BrowserSite) -> None:
    sentence = "could not agree on encryption with 127.0.0.1"
    assert error(browser_site.url.replace("http:", "https:")) == sentence
