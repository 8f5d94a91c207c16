"""Redirects in the browser: each is a request of its own, by leave of the site that it leads to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.browser.actions import Browsing
from pipelines.browser.fetcher import BrowserFetcher
from pipelines.coordination.client import Connection, SharedHostThrottle
from pipelines.coordination.server import Coordinator
from pipelines.fetch import CrawlOptions, Page
from pipelines.fetch.session import LocalSession
from pipelines.page_cache.cache import ExecutionPageCache
from pipelines.page_cache.options import CacheOptions
from tests.support.browser import OPTIONS, visited
from tests.support.browser_site import BrowserSite
from tests.support.request_site import build_do, serve_requests
from tests.support.site import Site

PAGES = {f"/{number}": f"<h1>{number}</h1>" for number in range(6)}


def by_leave(
    urls: list[str], options: CrawlOptions = OPTIONS, cache: ExecutionPageCache | None = None
) -> dict[str, Page]:
    """The pages by the address that was asked for, with the driver's leases."""
    with Coordinator(options) as coordinator:
        connection = Connection(coordinator.endpoint, "a/0")
        with BrowserFetcher(
            options, Browsing(), throttle=SharedHostThrottle(connection, options), cache=cache
        ) as fetcher:
            pages = {url: page for page, url in fetcher.fetch((url, url) for url in urls)}
        connection.finish()
    return {url: pages[url] for url in urls}


def test_they_lead_only_where_the_rules_of_their_target_let_them(site: Site, other: Site) -> None:
    rules = "User-agent: *\nDisallow: /secret"
    target = other.serve({"/open": "<h1>open</h1>", "/secret": "<h1>secret</h1>", "/robots.txt": rules})
    base = site.serve({"/1": "", "/2": ""})
    site.redirects |= {"/1": f"{target}/open", "/2": f"{target}/secret"}
    first, second = by_leave([f"{base}/1", f"{base}/2"]).values()
    assert (first.requested_url, first.url, first.redirects) == (f"{base}/1", f"{target}/open", ())
    assert b"<h1>open</h1>" in first.body
    assert second.error == f"redirects to {target}/secret: {target}/robots.txt forbids this address to Spindle"
    assert (second.forbidden, other.requests["/secret"]) == (True, 0)


def test_they_take_a_place_of_the_host_that_they_lead_to_and_none_waits_for_ever(site: Site, other: Site) -> None:
    target, base = other.serve(PAGES), site.serve(PAGES)
    site.redirects |= {f"/{number}": f"{target}/{number}" for number in range(3)}
    other.redirects |= {f"/{number}": f"{base}/{number}" for number in range(3, 6)}
    site.delay = other.delay = 0.1
    urls = [f"{base}/{number}" for number in range(3)] + [f"{target}/{number}" for number in range(3, 6)]
    pages = by_leave(urls, replace(OPTIONS, per_host=1))
    assert [page.error for page in pages.values()] == [None] * 6
    assert (site.most_running, other.most_running) == (1, 1)


def test_cookies_set_by_redirects_last_for_the_visit(browser_site: BrowserSite) -> None:
    browser_site.requests.clear()
    pages = visited(f"{browser_site.url}/enter", again=2)
    assert [(page.error, b"Entered" in page.body) for page in pages] == [(None, True)] * 2
    assert browser_site.requests["/enter"] == 4


def test_a_cookie_that_a_redirect_deletes_is_no_more_of_the_session() -> None:
    session = LocalSession()
    with serve_requests() as site:
        end = build_do(site.url, "end")
        deleting = build_do(site.url, "x", cookie="a=; Max-Age=0", to=end)
        with BrowserFetcher(OPTIONS, Browsing(), session=session) as fetcher:
            for url in (build_do(site.url, "x", cookie="a=1"), end, deleting, end):
                assert [page.error for page, _ in fetcher.fetch([(url, None)])] == [None]
        sent = [each.headers.get("cookie") for each in site.requests if each.path.startswith("/do/")]
    assert (sent, session.load()) == ([None, "a=1", "a=1", None, None], [])


def test_a_page_that_hangs_on_cookies_of_the_way_is_nobody_elses(browser_site: BrowserSite, tmp_path: Path) -> None:
    shown = {"/set?a": b"item=a", "/set?b": b"item=b", "/show": b"nothing"}
    with ExecutionPageCache(CacheOptions(str(tmp_path))) as cache:
        pages = by_leave([browser_site.url + path for path in ("/set?a", "/set?b")], cache=cache)
        pages |= by_leave([f"{browser_site.url}/show"], cache=cache)
    for path, text in shown.items():
        assert text in pages[browser_site.url + path].body


@pytest.mark.parametrize("path", ["/goes", "/posts"])
def test_redirects_after_a_script_navigates_a_loading_page_are_followed(browser_site: BrowserSite, path: str) -> None:
    browser_site.landed.clear()
    [page] = visited(browser_site.url + path)
    assert (page.error, page.url) == (None, f"{browser_site.url}/landing")
    assert b"Landed" in page.body


def test_they_are_found_where_chromium_writes_the_address_in_another_way(site: Site, other: Site) -> None:
    target = other.serve({"/secret": "<h1>secret</h1>", "/robots.txt": "User-agent: *\nDisallow: /secret"})
    url = site.serve({"/a%7Cb": ""}) + "/a|b"
    site.redirects["/a%7Cb"] = f"{target}/secret"
    assert (by_leave([url])[url].forbidden, other.requests["/secret"]) == (True, 0)


def test_they_do_not_go_on_for_ever(browser_site: BrowserSite) -> None:
    [page] = visited(f"{browser_site.url}/round", options=replace(OPTIONS, max_redirects=3))
    assert page.error == "redirects more than 3 times"


def test_the_target_of_a_redirect_is_not_fetched_again(browser_site: BrowserSite, tmp_path: Path) -> None:
    browser_site.requests.clear()
    urls = [f"{browser_site.url}/{path}" for path in ("moved", "moved-again", "two")]
    with ExecutionPageCache(CacheOptions(str(tmp_path))) as cache:
        pages = {url: page for each in urls for url, page in by_leave([each], cache=cache).items()}
    assert [page.url for page in pages.values()] == [urls[2]] * 3
    assert [page.redirects for page in pages.values()] == [(urls[1],), (), ()]
    assert browser_site.requests["/two"] == 1
