"""The html endpoint: a page through the engine's guarded fetcher, harmless where it arrives."""

from __future__ import annotations

from collections.abc import Generator
from urllib.parse import quote

import pytest

from core.errors import BadInput
from core.integrations.web_pages import fetch_web_page
from tests.support.api import Api
from tests.support.servers import Handler, serve

PAGES = {
    "/page?a=1&b=2": ("text/html; charset=iso-8859-1", "<h1>Caf\xe9</h1><script>alert(1)</script>".encode("latin-1")),
    "/meta": ("text/html", '<meta charset="windows-1251"><h1>\u043c\u0438\u0440</h1>'.encode("cp1251")),
    "/xhtml": ("application/xhtml+xml", b"<html/>"),
    "/picture": ("image/png", b"\x89PNG"),
    "/huge": ("text/html", b"x" * 6_000_000),
}


class Pages(Handler):
    def do_GET(self) -> None:
        kind, body = PAGES.get(self.path, ("text/html", b"gone"))
        self.respond(200 if self.path in PAGES else 404, body, kind, Set_Cookie="a=b")


@pytest.fixture(scope="module")
def site() -> Generator[str]:
    with serve(Pages) as url:
        yield url.removeprefix("http://")


@pytest.mark.parametrize(
    "path",
    [
        "{encoded}/http",
        "{encoded}/HTTP",
        "{encoded_whole}/http",
        "{site}/page/http?a=1&b=2",
        "http://{site}/page/http?a=1&b=2",
        "http://{site}/page?a=1&b=2/http",
    ],
)
def test_a_page_arrives_with_its_charset_and_sandboxed(acme: Api, site: str, path: str):
    address = f"{site}/page?a=1&b=2"
    encoded, whole = quote(address, safe=""), quote(f"http://{address}", safe="")
    response = acme.call("GET", f"/html/{path.format(site=site, encoded=encoded, encoded_whole=whole)}")
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "text/html; charset=iso-8859-1"
    assert "Caf\xe9" in response.text
    assert response.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert "allow-" not in response.headers["Content-Security-Policy"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in response.headers


def test_a_charset_that_only_the_page_declares_stays_the_pages(acme: Api, site: str):
    response = acme.call("GET", f"/html/{site}/meta/http")
    assert response.headers["Content-Type"] == "text/html"  # so that browsers look into the page
    assert response.content == PAGES["/meta"][1]


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("/picture", "not HTML but image/png"),
        ("/nowhere", "404"),
        ("/huge", "could not be fetched"),
    ],
)
def test_an_answer_that_is_no_page_is_an_error(acme: Api, site: str, address: str, part: str):
    response = acme.call("GET", f"/html/{site}{address}/http")
    assert (response.status_code, part in response.json()["error"]) == (400, True), response.text


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254/latest", "[::1]:80", "2130706434", "%00", "a b"])
def test_the_guard_holds_here_too(acme: Api, address: str):
    assert acme.call("GET", f"/html/{address}/http").status_code == 400


def test_a_name_that_is_refused_is_answered_like_one_that_is_not_there(acme: Api):
    strict = acme.settings.replace(fetch_allow_networks=())
    told: list[str] = []
    for host in ("localhost", "nowhere.invalid"):
        with pytest.raises(BadInput) as refused:
            fetch_web_page(strict, f"http://{host}/")
        assert host in refused.value.sentence
        told.append(refused.value.sentence.replace(host, ""))
    assert told[0] == told[1]
    with pytest.raises(BadInput, match=r"10\.0\.0\.1 is a private address"):
        fetch_web_page(strict, "http://10.0.0.1/")


def test_other_protocols_are_refused(acme: Api):
    assert acme.call("GET", "/html/etc%2Fpasswd/file").status_code == 400


def test_the_services_own_ports_are_always_refused(acme: Api, site: str):
    host, _, port = site.partition(":")
    for address in (site, f"localhost:{port}", f"[::ffff:{host}]:{port}"):
        open_ = acme.settings.replace(ui_port=int(port), fetch_allow_networks=("0.0.0.0/0", "::/0"))
        with pytest.raises(BadInput):
            fetch_web_page(open_, f"http://{address}/meta")
    assert fetch_web_page(acme.settings, f"http://{site}/meta").ok
