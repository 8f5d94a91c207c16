"""Pages that try to reach what the guard refuses, in every way that a page has; and what they may not read."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any

import pytest

from pipelines.browser.actions import Action, Browsing, Visit
from pipelines.browser.fetcher import BrowserFetcher
from tests.support.browser import OPTIONS, do, visited
from tests.support.browser_site import BrowserSite, serve_browser_site
from tests.support.service import wait_until

GUARDED = replace(OPTIONS, allow_networks=("127.0.0.1/32",))
WAIT = do("wait", seconds=1)
ANSWER = b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret"


@dataclass
class Victim:
    """A server on an address of this machine that pages must not reach; `heard` has what came, by TCP or UDP."""

    address: str
    port: int
    heard: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.address}:{self.port}"


@contextmanager
def listening(address: str) -> Generator[Victim]:
    with socket.create_server((address, 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        victim = Victim(address, tcp.getsockname()[1])
        udp.bind((address, victim.port))

        def answer() -> None:
            while True:
                try:
                    connection, _ = tcp.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(2)
                    try:
                        victim.heard.append(connection.recv(65536).decode("latin-1").partition("\r\n")[0])
                        connection.sendall(ANSWER)
                    except OSError:
                        continue

        def hear() -> None:
            while True:
                try:
                    victim.heard.append(f"UDP {udp.recv(65536)[:20]!r}")
                except OSError:
                    return

        threads = [threading.Thread(target=each, daemon=True) for each in (answer, hear)]
        for thread in threads:
            thread.start()
        try:
            yield victim
        finally:
            tcp.shutdown(socket.SHUT_RDWR)
            udp.close()


@pytest.fixture
def victim() -> Iterator[Victim]:
    with listening("127.0.0.2") as victim:
        yield victim


WAYS = {
    "fetch": "fetch('http://PLACE/', {mode: 'no-cors'})",
    "readable fetch": "fetch('http://PLACE/').then(a => a.text()).then(t => document.body.textContent = t)",
    "XMLHttpRequest": "const x = new XMLHttpRequest(); x.open('POST', 'http://PLACE/'); x.send('a')",
    "WebSocket": "new WebSocket('ws://PLACE/')",
    "EventSource": "new EventSource('http://PLACE/')",
    "beacon": "navigator.sendBeacon('http://PLACE/', 'a')",
    "script": "document.head.append(Object.assign(document.createElement('script'), {src: 'http://PLACE/'}))",
    "iframe": "document.body.append(Object.assign(document.createElement('iframe'), {src: 'http://PLACE/'}))",
    "form": "const f = document.createElement('form'); f.method = 'POST'; f.action = 'http://PLACE/';"
    "document.body.append(f); f.submit()",
    "location": "location = 'http://PLACE/'",
    "popup": "open('http://PLACE/')",
    "redirect": "fetch('/elsewhere?http://PLACE/', {mode: 'no-cors'})",
    "worker": "new Worker(URL.createObjectURL(new Blob([`fetch('http://PLACE/', {mode: 'no-cors'})`])))",
    "preconnect": "document.head.append(Object.assign(document.createElement('link'),"
    " {rel: 'preconnect', href: 'http://PLACE/'}))",
    "prefetch": "document.head.append(Object.assign(document.createElement('link'),"
    " {rel: 'prefetch', href: 'http://PLACE/'}))",
    "https": "fetch('https://PLACE/', {mode: 'no-cors'})",
}
NAVIGATING = ("form", "location", "popup")
OTHER_WAYS = {
    "STUN": "const p = new RTCPeerConnection({iceServers: [{urls: 'stun:PLACE'}]});"
    "p.createDataChannel('d'); p.createOffer().then(o => p.setLocalDescription(o))",
    "TURN over TCP": "const p = new RTCPeerConnection({iceServers: ["
    "{urls: 'turn:PLACE?transport=tcp', username: 'u', credential: 'c'}]});"
    "p.createDataChannel('d'); p.createOffer().then(o => p.setLocalDescription(o))",
    "WebTransport": "new WebTransport('https://PLACE/')",
}


def attacking(site: BrowserSite, script: str, place: str) -> str:
    """The address of a page that runs the script."""
    site.pages["/attack"] = f"<body><h1>Attack</h1><script>{script.replace('PLACE', place)}</script>"
    return f"{site.url}/attack"


def together(ways: Iterable[str]) -> str:
    return "".join(f"try {{ (() => {{ {way} }})() }} catch {{}};" for way in ways)


STAYING = together(way for name, way in WAYS.items() if name not in NAVIGATING)


@pytest.mark.parametrize("script", [STAYING, together(OTHER_WAYS.values()), *(WAYS[name] for name in NAVIGATING)])
def test_a_page_reaches_nothing_that_is_refused(browser_site: BrowserSite, victim: Victim, script: str) -> None:
    [page] = visited(attacking(browser_site, script, victim.place), WAIT, options=GUARDED)
    assert victim.heard == []
    assert b"secret" not in page.body


def test_the_same_attempts_reach_an_allowed_address(browser_site: BrowserSite, victim: Victim) -> None:
    least = len(WAYS) - len(NAVIGATING) - 1  # of those for one address, one may stand for two

    class Heard(Action):
        def patience(self) -> float:
            return 60

        async def perform(self, visit: Visit) -> None:
            while len(victim.heard) < least:
                await visit.page.wait_for_timeout(100)

    [page] = visited(attacking(browser_site, STAYING, victim.place), Heard())
    assert page.error is None, victim.heard


@pytest.mark.parametrize(
    "address",
    ["127.0.0.2", "169.254.169.254", "10.0.0.1", "192.168.1.1", "[::1]", "[::ffff:127.0.0.2]", "0x7f000002", "127.2"],
)
def test_a_refused_address_is_a_sentence(address: str) -> None:
    [page] = visited(f"http://{address}:8000/", options=GUARDED)
    assert page.error.startswith("refused: ")
    assert page.error.endswith("which pages are not fetched from")


def test_the_services_own_ports_are_refused_at_an_allowed_address(browser_site: BrowserSite, victim: Victim) -> None:
    options = replace(OPTIONS, own_endpoints=((victim.address, victim.port),))
    visited(attacking(browser_site, STAYING, victim.place), WAIT, options=options)
    assert victim.heard == []
    [page] = visited(f"http://{victim.place}/", options=options)
    assert page.error == "refused: 127.0.0.2 is an address of this service itself, which pages are not fetched from"


def test_a_redirect_to_a_refused_address_is_refused(browser_site: BrowserSite, victim: Victim) -> None:
    [page] = visited(f"{browser_site.url}/elsewhere?http://{victim.place}/", options=GUARDED)
    assert page.error == "refused: 127.0.0.2 is a loopback address, which pages are not fetched from"
    assert victim.heard == []


def test_a_name_that_changes_its_address_leads_nowhere_else(
    browser_site: BrowserSite, victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = chain(["127.0.0.1"], repeat(victim.address))
    real, looked_up = socket.getaddrinfo, []

    def rebinding(host: Any, *arguments: Any, **more: Any) -> Any:
        if host != "rebinding.test":
            return real(host, *arguments, **more)
        looked_up.append(host)
        return real(next(answers), *arguments, **more)

    class LookedUpAgain(Action):
        def patience(self) -> float:
            return 60

        async def perform(self, visit: Visit) -> None:
            while len(looked_up) < 2:
                await visit.page.wait_for_timeout(100)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    again = f"setInterval(() => fetch('http://rebinding.test:{victim.port}/', {{mode: 'no-cors'}}), 100)"
    browser_site.pages["/attack"] = f"<body><script>{again}</script>"
    port = browser_site.url.rpartition(":")[2]
    [page] = visited(f"http://rebinding.test:{port}/attack", LookedUpAgain(), WAIT, options=GUARDED)
    assert (page.status, page.error) == (200, None)
    assert victim.heard == []


@pytest.mark.parametrize("path", ["/file", "/data"])
def test_a_page_leads_to_no_file(browser_site: BrowserSite, path: str) -> None:
    traces = [WAIT, do("click", selector="a", optional=True, timeout=0.5), WAIT]
    [page] = visited(browser_site.url + path, *traces)
    assert b"root:" not in page.body
    assert (page.error, page.url) == (None, browser_site.url + path)


def test_a_redirect_to_a_file_is_refused(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/elsewhere?file:///etc/passwd")
    assert page.error == "redirects to what is neither http nor https"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/", "data:text/html,a", "chrome://version"])
def test_only_the_web_is_visited(url: str) -> None:
    [page] = visited(url)
    assert page.error == f"'{url}' is not an http or https address"


SCROLL = do("scroll_to_bottom", seconds=1, pauseMs=10)


@pytest.mark.parametrize("value", ["new Date(8.64e15)", "10n ** 5000n", "{valueOf: () => 5, more: new Date(8.64e15)}"])
def test_a_page_cannot_fake_its_height(browser_site: BrowserSite, value: str) -> None:
    height = f"Object.defineProperty(document, 'scrollingElement', {{value: {{scrollTop: 0, scrollHeight: {value}}}}})"
    [page] = visited(attacking(browser_site, height, ""), SCROLL)
    assert (page.status, page.error) == (200, None)


def test_a_form_in_place_of_the_page_is_read(browser_site: BrowserSite) -> None:
    names = "".join(f"<input name={name}>" for name in ("scrollTop", "scrollHeight", "outerHTML", "innerHTML"))
    browser_site.pages["/form"] = f"<form>{names}</form><script>document.documentElement.replaceWith(document.forms[0])"
    [page] = visited(f"{browser_site.url}/form", SCROLL)
    assert (page.status, page.error) == (200, None)


def test_a_form_that_imitates_the_xml_viewer_is_read_as_a_page(browser_site: BrowserSite) -> None:
    form = (
        "<form xmlns='http://www.w3.org/1999/xhtml' id='webkit-xml-viewer-source-xml'><input name='innerHTML'/></form>"
    )
    browser_site.pages["/viewed"] = f"<a>{form}</a>"
    [page] = visited(f"{browser_site.url}/viewed")
    assert (page.status, page.error) == (200, None)


def test_an_address_that_a_page_makes_up_has_a_greatest_length(browser_site: BrowserSite) -> None:
    [page] = visited(attacking(browser_site, "history.pushState(null, '', '/' + 'x'.repeat(3_000_000))", ""))
    assert page.error.startswith("the page has given itself an address of 3,000,0")
    assert len(page.url) < 100


class Falls(Action):
    """Falls over what a page has given it."""

    async def perform(self, visit: Visit) -> None:
        raise ValueError("not a \ud800 date\nat all")


def test_an_action_that_falls_over_a_page_is_an_error_of_the_page(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/two", Falls())
    assert (page.status, page.error) == (200, "action 1, Falls: ValueError: not a \ufffd date")


NEVER = "() => { while (true); }"


@pytest.mark.parametrize(
    "script", [f"onbeforeunload = onpagehide = onunload = {NEVER}", f"setTimeout({NEVER}, 150)"], ids=["stays", "hangs"]
)
def test_a_page_that_does_not_go_spoils_no_visit_of_another_site(browser_site: BrowserSite, script: str) -> None:
    url = attacking(browser_site, script, "")
    with serve_browser_site() as other, BrowserFetcher(replace(OPTIONS, total_timeout=60), Browsing()) as fetcher:
        pages = [page for each in (url, f"{other.url}/two") for page, _ in fetcher.fetch([(each, None)])]
    assert [page.error for page in pages] == [None, None]


def test_a_page_that_was_read_asks_for_nothing_more(browser_site: BrowserSite) -> None:
    url = attacking(browser_site, "setInterval(() => fetch('/tick'), 20)", "")

    def rests() -> bool:
        before = browser_site.requests["/tick"]
        time.sleep(0.5)
        return browser_site.requests["/tick"] == before

    with BrowserFetcher(OPTIONS, Browsing()) as fetcher:
        [(page, _)] = fetcher.fetch([(url, None)])
        assert page.error is None
        wait_until(rests, 30)
        again = [page for page, _ in fetcher.fetch([(f"{browser_site.url}/one", None)])]
    assert b"One, by script" in again[0].body
