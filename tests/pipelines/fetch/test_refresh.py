"""Pages that lead on to others by a header or a meta element, as browsers follow them."""

from __future__ import annotations

from time import process_time

import pytest

from pipelines.coordination.client import Connection, SharedHostThrottle
from pipelines.coordination.server import Coordinator
from pipelines.fetch import CrawlOptions, HttpFetcher, Page
from pipelines.fetch.refresh import find_refresh, parse_refresh
from tests.support.fetching import LOOPBACK, fetch
from tests.support.pages import document
from tests.support.request_site import RequestSite, build_do
from tests.support.site import Site

END = "http://shop.test/end"
META = '<meta http-equiv="refresh" content="{}">'


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("0;url=/end", (0, "/end")),
        (" 5 ; URL = '/end' x", (5, "/end")),
        ('3,url="/end', (3, "/end")),
        ("1.5; /end", (1, "/end")),
        (".5;url=/end", (0, "/end")),
        ("2 url=/end", (2, "/end")),
        ("0;'/end'", (0, "/end")),
        ("0;urlaub", (0, "urlaub")),
        ("7", (7, "")),
        ("7;", (7, "")),
        ("url=/end", None),
        ("1x;url=/end", None),
        ("", None),
    ],
)
def test_a_refresh_is_read_as_the_standard_says(content: str, found: tuple[int, str] | None) -> None:
    assert parse_refresh(content) == found


@pytest.mark.parametrize(
    ("body", "address"),
    [
        (META.format("0;url=/end"), END),
        (META.format("10;url=../end"), END),
        ("<META CONTENT='0; URL=/end?a=1&amp;b=2' HTTP-EQUIV=Refresh>", f"{END}?a=1&b=2"),
        (f"<base href=/x/>{META.format('0;url=../end')}", END),
        (f"{META.format('soon')}{META.format('0;url=/end')}{META.format('0;url=/no')}", END),
        (META.format("11;url=/end"), None),
        (META.format("0"), None),
        (META.format("0;url=javascript:alert(1)"), None),
        (f"<noscript>{META.format('0;url=/end')}</noscript>", None),
        (f"<!-- {META.format('0;url=/end')} -->", None),
        (f"<script>'{META.format('0;url=/end')}'</script>", None),
        (f"<script>{META.format('0;url=/end')}", None),
        ('<meta name="refresh" content="0;url=/end"><meta http-equiv=x>', None),
        ("<p>http-equiv refresh</p>", None),
    ],
)
def test_a_meta_element_leads_on_where_it_is_one(body: str, address: str | None) -> None:
    page = document(body, "http://shop.test/a/b").page
    assert find_refresh(page) == address
    page.content_type = "text/plain"
    assert find_refresh(page) is None


@pytest.mark.parametrize("unit", ["<script>", "<!--", "<meta ", "<meta a='", "<meta http-equiv=", "<", "<meta a=a "])
def test_nonsense_takes_no_time(unit: str) -> None:
    page = document("http-equiv" + unit * (200_000 // len(unit)), "http://shop.test/a/b").page
    began = process_time()
    assert find_refresh(page) is None
    assert process_time() - began < 5


def test_a_refresh_is_followed_like_a_redirect(requests: RequestSite) -> None:
    end = build_do(requests.url, "end")
    for answer in ({"refresh": f"5;url={end}"}, {"body": META.format(f"0;url={end}")}):
        page = fetch(build_do(requests.url, "x", cookie="a=1", **answer))
        assert (page.url, page.body) == (end, b"<h1>GET  a=1</h1>")
    assert fetch(build_do(requests.url, "x", refresh="11;url=/end")).body.startswith(b"<h1>GET")
    missing = fetch(build_do(requests.url, "x", refresh=f"0;url={end}", status="404"))
    assert (missing.status, missing.redirects) == (404, ())


def test_refreshes_end(requests: RequestSite) -> None:
    assert fetch(build_do(requests.url, "x", refresh="1;url=?", body="same"), max_redirects=3).body
    requests.requests.clear()
    page = fetch(build_do(requests.url, "self", refresh="self"))
    assert (page.error, len(requests.requests)) == (None, 1)
    ways = build_do(requests.url, "end")
    for name in "cba":
        ways = build_do(requests.url, name, refresh=f"0;url={ways}")
    page = fetch(ways, max_redirects=2)
    assert (page.error, page.body) == ("redirects more than 2 times", b"")
    assert fetch(ways, max_redirects=3).body.startswith(b"<h1>GET")


def test_robots_and_guard_hold_for_a_refresh(site: Site) -> None:
    base = site.serve(
        {
            "/robots.txt": "User-agent: *\nDisallow: /secret",
            "/a": META.format("0;url=/secret"),
            "/b": META.format("0;url=http://10.0.0.1/"),
            "/secret": "x",
        }
    )
    options = CrawlOptions(allow_networks=LOOPBACK, retries=0)
    with Coordinator(options) as coordinator:
        connection = Connection(coordinator.endpoint, "a/0")
        with HttpFetcher(options, SharedHostThrottle(connection, options)) as fetcher:
            pages: dict[str, Page] = {
                tag: page for page, tag in fetcher.fetch((base + each, each) for each in ("/a", "/b"))
            }
        connection.finish()
    assert (pages["/a"].forbidden, site.requests["/secret"]) == (True, 0)
    assert "refused: 10.0.0.1" in (pages["/b"].error or "")
