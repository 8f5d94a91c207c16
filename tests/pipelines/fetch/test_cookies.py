"""Cookies of a chain of redirects, of a session, and of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pipelines.fetch import HttpFetcher
from pipelines.fetch.requests import RequestArguments, build_template
from pipelines.fetch.session import LocalSession, list_changes
from tests.support.fetching import fetch_all, options
from tests.support.request_site import RequestSite, build_do

DELETED = ("a=; Max-Age=0", "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "a=x; Expires=Fri, 01-Jan-2021 00:00:00 GMT")
LINES = [f"shop.test\tFALSE\t/\tFALSE\t0\t{name}\t1" for name in "abc"]


def send(session: LocalSession | None, urls: Iterable[str], **cookies: str) -> list[str]:
    """Return the errors of pages that were fetched one after the other."""
    template = build_template(RequestArguments(cookies=cookies), RequestArguments(), lambda _: False, ())
    build = (lambda url, tag: template.build(url, lambda _: None, tag)) if template else None
    with HttpFetcher(options(), session=session) as fetcher:
        return [page.error or "" for url in urls for page, _ in fetcher.fetch([(url, 0)], build)]


def list_sent(requests: RequestSite) -> list[str | None]:
    """Return the cookies of each request in the order of their names."""
    sent = [each.headers.get("cookie") for each in requests.requests]
    return [each and "; ".join(sorted(each.split("; "))) for each in sent]


def test_a_cookie_of_a_redirect_is_sent_on_the_way_and_to_no_other_page(requests: RequestSite) -> None:
    end = build_do(requests.url, "end")
    elsewhere = build_do(requests.url.replace("127.0.0.1", "localhost"), "elsewhere", to=end)
    start = build_do(
        requests.url, "start", cookie="a=1; Path=/", to=build_do(requests.url, "next", cookie="b=2", to=elsewhere)
    )
    pages = fetch_all([start, end, end], concurrency=1)
    assert all(page.ok for page in pages)
    assert list_sent(requests) == [None, "a=1", None, "a=1; b=2", None, None]


@pytest.mark.parametrize("deleted", DELETED)
def test_a_deleted_cookie_stays_deleted(deleted: str, requests: RequestSite) -> None:
    session, end = LocalSession(), build_do(requests.url, "end")
    send(session, [build_do(requests.url, "x", cookie="a=1"), build_do(requests.url, "x", cookie="b=2")])
    send(session, [end, build_do(requests.url, "x", cookie=deleted), end])
    send(session, [end])
    assert list_sent(requests) == [None, "a=1", "a=1; b=2", "a=1; b=2", "b=2", "b=2"]
    requests.requests.clear()
    send(None, [build_do(requests.url, "x", cookie="a=1", to=build_do(requests.url, "y", cookie=deleted, to=end))])
    assert list_sent(requests) == [None, "a=1", None]


def test_a_cookie_of_the_pipeline_and_one_of_the_session_are_one(requests: RequestSite) -> None:
    session, end = LocalSession(), build_do(requests.url, "end")
    send(
        session, [build_do(requests.url, "x", cookie="a=1; Path=/"), build_do(requests.url, "x", cookie="b=2; Path=/")]
    )
    requests.requests.clear()
    send(session, [end, build_do(requests.url, "x", cookie="c=3; Path=/"), end], a="own")
    assert list_sent(requests) == ["a=own; b=2", "a=own; b=2", "a=own; b=2; c=3"]
    requests.requests.clear()
    send(session, [end])
    assert list_sent(requests) == ["a=1; b=2; c=3"]


@pytest.mark.parametrize("session", [LocalSession(), None])
def test_on_the_way_the_servers_cookie_replaces_the_pipelines(
    session: LocalSession | None, requests: RequestSite
) -> None:
    send(session, [build_do(requests.url, "x", cookie="a=new", to=build_do(requests.url, "end"))], a="own")
    assert list_sent(requests) == ["a=own", "a=new"]


def test_a_loop_of_redirects_with_cookies_names_the_session(requests: RequestSite) -> None:
    loop, plain = build_do(requests.url, "x", cookie="a=1", to="self"), build_do(requests.url, "y", to="self")
    hint = "; it sets cookies, and 'spindle: {session: true}' sends those of all pages"
    assert send(None, [loop, plain]) == [f"redirects more than 20 times{hint}", "redirects more than 20 times"]


def test_changes_are_new_lines_and_deleted_ones_that_are_over() -> None:
    changed = LINES[2].replace("\t1", "\t2")
    deleted = LINES[0].replace("\t0\ta", "\t1\ta")
    assert list_changes(LINES, [LINES[1], changed]) == [changed, deleted]
    session = LocalSession()
    session.save(LINES)
    session.save([changed, deleted])
    assert session.load() == [LINES[1], changed]
