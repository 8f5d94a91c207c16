from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from pipelines.fetch import HttpFetcher, Page
from pipelines.page_cache.cache import ExecutionPageCache
from pipelines.page_cache.options import CacheOptions
from tests.support.bad_server import PAGE, BadServer
from tests.support.fetching import fetch, fetch_all, options


def test_a_page_has_its_type_body_and_origin(bad_server: BadServer) -> None:
    before = datetime.now(UTC)
    page = fetch(bad_server.url("/good"))
    assert page.ok
    assert (page.requested_url, page.url, page.redirects) == (bad_server.url("/good"), bad_server.url("/good"), ())
    assert (page.status, page.error, page.content_type, page.charset) == (200, None, "text/html", None)
    assert page.body == PAGE
    assert before <= page.fetched_at <= datetime.now(UTC)


def test_the_user_agent_is_sent_and_nothing_that_names_the_machine(bad_server: BadServer) -> None:
    fetch(bad_server.url("/good"), user_agent="Shopper/2.0 (shop@example.test)")
    headers = bad_server.headers["/good"]
    assert headers["user-agent"] == "Shopper/2.0 (shop@example.test)"
    assert headers["accept-encoding"] == "gzip, deflate, br, zstd"
    assert set(headers) == {"host", "user-agent", "accept", "accept-encoding"}


@pytest.mark.parametrize("text", ["x\r\nCookie: a=b", "x\n", "x\0", "x\t", "Käfer"])
def test_a_user_agent_that_is_more_than_one_header_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the user agent must be printable ASCII on one line"):
        options(user_agent=text)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 501])
def test_an_error_status_is_no_page_but_no_error_of_fetching_either(status: int, bad_server: BadServer) -> None:
    page = fetch(bad_server.url(f"/status?code={status}"), retries=3)
    assert (page.status, page.error, page.ok) == (status, None, False)
    assert bad_server.requests["/status"] == 1


def test_connections_are_kept_between_requests_and_calls(bad_server: BadServer) -> None:
    with HttpFetcher(options(concurrency=2)) as fetcher:
        for _ in range(3):
            pages = list(fetcher.fetch((bad_server.url(f"/good?{each}"), each) for each in range(20)))
            assert all(page.ok for page, _ in pages)
    assert bad_server.requests["/good"] == 60
    assert bad_server.connections <= 2


def test_a_stopped_fetcher_gives_up_the_requests_in_flight(bad_server: BadServer) -> None:
    stop, arrived = threading.Event(), list[int]()
    paths = ["/good?0", "/silent", "/good?1", *(f"/good?{each}" for each in range(2, 100))]
    with HttpFetcher(options(concurrency=3), stop=stop) as fetcher:
        for _, number in fetcher.fetch((bad_server.url(path), number) for number, path in enumerate(paths)):
            arrived.append(number)
            if len(arrived) == 2:
                stop.set()
    assert 1 not in arrived
    assert len(arrived) <= 4
    assert bad_server.running["/silent"] == bad_server.requests["/silent"], "it has not answered"


def test_pages_that_tags_came_to_hold_are_not_held(bad_server: BadServer) -> None:
    class Row:
        page: Page | None = None

    held: list[weakref.ref[Row]] = []
    with HttpFetcher(options(concurrency=8)) as fetcher:
        for page, row in fetcher.fetch((bad_server.url(f"/good?{each}"), Row()) for each in range(16)):
            row.page = page
            held.append(weakref.ref(row))
            del row
        assert [row for row in held if row()] == []


@pytest.mark.parametrize("kept", [False, True])
def test_of_pages_that_came_together_those_that_were_given_are_not_held(
    bad_server: BadServer, tmp_path: Path, kept: bool
) -> None:
    class Row:
        pass

    def requests() -> Iterator[tuple[str, Row]]:
        return ((bad_server.url(f"/good?{each}"), Row()) for each in range(16))

    alive: list[weakref.ref[Row]] = []
    pages = ExecutionPageCache(CacheOptions(shared=str(tmp_path), lifetime_seconds=3600)) if kept else nullcontext()
    with pages as cache, HttpFetcher(options(concurrency=8), cache=cache) as fetcher:
        if kept:
            assert len(list(fetcher.fetch(requests()))) == 16
        for _, row in fetcher.fetch(requests()):
            if not alive:
                time.sleep(0.3)  # the others that are in flight come meanwhile
            alive = [each for each in alive if each()]
            assert not alive
            alive.append(weakref.ref(row))
            del row


@pytest.mark.long
def test_pages_come_in_the_order_in_which_they_finish_with_their_tags(bad_server: BadServer) -> None:
    urls = [(bad_server.url("/silent?seconds=2"), "slow"), (bad_server.url("/good"), "quick")]
    with HttpFetcher(options()) as fetcher:
        assert [tag for _, tag in fetcher.fetch(urls)] == ["quick", "slow"]


def test_no_more_requests_are_pulled_than_can_start(bad_server: BadServer) -> None:
    pulled = 0

    def endless() -> Iterator[tuple[str, None]]:
        nonlocal pulled
        while True:
            pulled += 1
            yield bad_server.url("/good"), None

    with HttpFetcher(options(concurrency=4)) as fetcher:
        pages = fetcher.fetch(endless())
        for _ in range(10):
            next(pages)
        pages.close()
    assert pulled <= 18


def test_concurrency_is_used_and_not_exceeded(bad_server: BadServer) -> None:
    pages = fetch_all([bad_server.url(f"/slow?{each}") for each in range(40)], concurrency=8)
    assert all(page.ok for page in pages)
    assert 4 <= bad_server.most_running <= 8


def test_a_host_gets_no_more_than_its_share_while_others_go_on(bad_server: BadServer) -> None:
    slow = [bad_server.url(f"/slow?{each}") for each in range(12)]
    other = [f"http://127.0.0.2:{bad_server.port}/good" for _ in range(3)]
    with HttpFetcher(options(concurrency=8, per_host=2)) as fetcher:
        order = [tag for _, tag in fetcher.fetch([(url, url) for url in slow + other])]
    assert bad_server.most_running <= 2
    assert sorted(order) == sorted(slow + other)


@pytest.mark.long
def test_a_failure_may_wait_for_its_reader_longer_than_for_a_first_byte(bad_server: BadServer) -> None:
    with HttpFetcher(options(first_byte_timeout=1.5, retries=0)) as fetcher:
        slow = fetcher.fetch((bad_server.url(path), None) for path in ("/good", "/empty?seconds=0.2"))
        next(slow)
        for _ in fetcher.fetch((bad_server.url(f"/good?{number}"), number) for number in range(20)):
            time.sleep(0.1)
        [(page, _)] = slow
    assert page.error == f"127.0.0.1:{bad_server.port} closed the connection without an answer"


def test_iterators_of_one_fetcher_may_be_interleaved(bad_server: BadServer) -> None:
    with HttpFetcher(options(concurrency=4)) as fetcher:
        first = fetcher.fetch((bad_server.url(f"/good?a{each}"), each) for each in range(20))

        def follow() -> Iterator[tuple[str, int]]:
            for page, tag in first:
                assert page.ok
                yield bad_server.url(f"/slow?b{tag}"), tag

        assert sorted(tag for page, tag in fetcher.fetch(follow()) if page.ok) == list(range(20))


def test_an_iterator_that_is_left_frees_its_requests(bad_server: BadServer) -> None:
    with HttpFetcher(options(concurrency=2)) as fetcher:
        left = fetcher.fetch((bad_server.url("/silent?seconds=1"), None) for _ in range(4))
        quick = fetcher.fetch([(bad_server.url("/good"), None)])
        assert next(quick)[0].ok
        left.close()
        assert [page.ok for page, _ in fetcher.fetch([(bad_server.url("/good"), None)])] == [True]


@pytest.mark.parametrize(
    "url", ["mailto:a@b.test", "", "no address", "http://", "ftp://127.0.0.1/", "http://a b/", "\x00"]
)
def test_an_invalid_url_is_an_error_of_its_row(url: str, bad_server: BadServer) -> None:
    bad, good = fetch_all([url, bad_server.url("/good")])
    assert bad.error == f"'{url}' is not an http or https address"
    assert (bad.status, bad.ok, bad.url) == (None, False, url)
    assert good.ok


def test_an_address_is_asked_for_as_a_browser_would(bad_server: BadServer) -> None:
    page = fetch(bad_server.url("/good?q=a b ü#part"))
    assert page.ok


class TestRedirects:
    def test_are_followed_and_recorded(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/chain?left=3"))
        assert page.ok
        assert page.requested_url == bad_server.url("/chain?left=3")
        assert page.url == bad_server.url("/good")
        assert page.redirects == (bad_server.url("/chain?left=2"), bad_server.url("/chain?left=1"))

    def test_to_a_part_of_a_page_lead_to_the_page(self, bad_server: BadServer) -> None:
        assert fetch(bad_server.url(f"/redirect?to={quote('/good#part')}")).url == bad_server.url("/good")

    @pytest.mark.parametrize(("name", "asked"), [("café", "caf%E9"), ("caf\u00c3\u00a9", "caf%C3%A9")])
    def test_in_the_encoding_of_the_server_lead_where_it_means(
        self, name: str, asked: str, bad_server: BadServer
    ) -> None:
        page = fetch(bad_server.url(f"/redirect?to={quote(f'/good?{name}')}"))
        assert (page.ok, page.url) == (True, bad_server.url(f"/good?{asked}"))

    def test_that_lead_nowhere_are_answers(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/redirect?to="))
        assert (page.status, page.error, bad_server.requests["/redirect"]) == (302, None, 1)

    def test_in_a_loop_end(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/loop"), max_redirects=5)
        assert page.error == "redirects more than 5 times"
        assert not page.ok
        assert bad_server.requests["/loop"] == 6

    def test_to_nowhere_are_an_error(self, bad_server: BadServer) -> None:
        where = f"127.0.0.1:{bad_server.port}"
        page = fetch(bad_server.url("/redirect?to=http://[bad/"))
        assert page.error == f"{where} redirects to something that is not a URL"

    def test_have_the_time_of_one_page_together(self, bad_server: BadServer) -> None:
        page = fetch(bad_server.url("/slow-redirects"), max_redirects=10_000, total_timeout=1)
        assert page.error == "timed out after 1 s"


def test_thousands_of_pages_leak_neither_files_nor_memory(bad_server: BadServer) -> None:
    def files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = files()
    with HttpFetcher(options(concurrency=8)) as fetcher:
        paths = ["/good"] * 9 + ["/reset"]
        pages = fetcher.fetch((bad_server.url(paths[each % 10]), None) for each in range(2000))
        assert sum(page.ok for page, _ in pages) == 1800
    deadline = time.monotonic() + 30
    while files() > before + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert files() <= before + 2


def test_transfers_continue_while_the_caller_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that all come at once: those of addresses that are none."""
    with HttpFetcher(options()) as fetcher:
        performed = 0
        perform = fetcher._perform

        def counted() -> None:
            nonlocal performed
            performed += 1
            perform()

        monkeypatch.setattr(fetcher, "_perform", counted)
        for at, (_, tag) in enumerate(fetcher.fetch(("no address", n) for n in range(5))):
            assert (tag, performed) == (at, at + 1)
            fetcher._performed_at -= 1
        assert performed == 6
