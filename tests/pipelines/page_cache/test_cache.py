"""The page cache of an execution: which pages are stored, and how long they are fresh."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from pipelines.fetch import FetchOptions, HttpFetcher, Page
from pipelines.fetch.page import refresh_page
from pipelines.page_cache.cache import ExecutionPageCache, get_lifetime
from pipelines.page_cache.options import CacheOptions
from tests.pipelines.page_cache.test_contract import page
from tests.support.bad_server import BadServer

DAY = 86400


def cache(folder: Path, lifetime: float = DAY) -> ExecutionPageCache:
    return ExecutionPageCache(CacheOptions(str(folder), lifetime_seconds=lifetime))


def fetch(folder: Path, urls: list[str], **changes: object) -> list[Page]:
    """The pages of a run by itself."""
    options = FetchOptions(allow_networks=("127.0.0.1/32",), concurrency=4, retries=0)
    with (
        ExecutionPageCache(CacheOptions(**{"shared": str(folder), "lifetime_seconds": DAY, **changes})) as kept,
        HttpFetcher(options, cache=kept) as fetcher,
    ):
        found = {tag: page for page, tag in fetcher.fetch((url, at) for at, url in enumerate(urls))}
    return [found[at] for at in range(len(urls))]


def test_a_page_that_was_redirected_to_serves_both_addresses(tmp_path: Path, bad_server: BadServer) -> None:
    good, moved = bad_server.url("/good"), bad_server.url("/redirect?to=/good")
    for number, urls in enumerate(([moved, good], [good, moved])):
        for url in urls:
            [found] = fetch(tmp_path / str(number), [url])
            assert (found.ok, found.requested_url, found.url, found.redirects) == (True, url, good, ())
        [again] = fetch(tmp_path / str(number), [moved])
        assert again == replace(found, requested_url=moved)
        assert bad_server.requests == {"/good": 1, "/redirect": 1}
        bad_server.requests.clear()


def test_pages_whose_urls_contain_a_secret_are_not_stored(tmp_path: Path) -> None:
    options = CacheOptions(str(tmp_path / "a"), str(tmp_path / "b"), secrets=("pa/ss word",))
    with ExecutionPageCache(options) as pages:
        for number, spelled in enumerate(("pa%2Fss%20word", "pa%2Fss+word", "pa/ss%20word")):
            url = f"http://x.test/?key={spelled}"
            pages.put(page(number, requested_url=url))
            pages.put(page(number, redirects=(url,)))
        pages.put(page(9))
    assert not (tmp_path / "b").exists()
    with cache(tmp_path / "a") as pages:
        found = [pages.get(page(number).requested_url) is not None for number in (0, 1, 2, 9)]
    assert found == [False, False, False, True]
    assert all(b"word" not in file.read_bytes() for file in (tmp_path / "a").iterdir())


class TestFreshness:
    @pytest.mark.parametrize(
        ("head", "seconds"),
        [
            ("", 60),
            ("Cache-Control: max-age=300", 300),
            ("Cache-Control: public, MAX-AGE=300\r\nAge: 100", 200),
            ("cache-control: max-age=100\r\nAge: 900", 0),
            ("Cache-Control: public\r\nCache-Control: max-age=7", 7),
            ('Cache-Control: max-age="5"', 5),
            ("Cache-Control: max-age=99999999999999999999", 10 * 365 * 86400),
            (f"Cache-Control: max-age={'9' * 5000}", 10 * 365 * 86400),
            (f"Cache-Control: max-age=300\r\nAge: {'9' * 5000}", 0),
            ("Cache-Control: no-cache, max-age=300", 0),
            ("Cache-Control: no-store", 0),
            ("Cache-Control: private", 60),
            ("Cache-Control: max-age=soon", 60),
            ("Pragma: no-cache", 0),
            ("Expires: 0", 0),
            ("Expires: Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Expires: Mon, 01 Jan 99999999999 00:00:00 GMT", 0),
            ("Expires: Mon, 01 Jan 2020 00:00:00 +99999999999999999999", 0),
            ("Date: Mon, 01 Jan 9999 23:59:59 -2300\r\nExpires: Mon, 01 Jan 0001 00:00:00 +2300", 0),
            ("Cache-Control: max-age=5\r\nExpires: Sat, 01 Nov 2095 00:10:00 GMT", 5),
        ],
    )
    def test_is_the_one_in_the_servers_headers(self, head: str, seconds: int) -> None:
        answer = page(1, head=f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode())
        assert get_lifetime(answer, timedelta(seconds=60)) == timedelta(seconds=seconds)

    @pytest.mark.parametrize(
        ("head", "arrived", "seconds"),  # after http-cache-semantics 3.7.3, test/okhttptest.js
        [
            ("Expires: Sat, 01 Nov 2025 00:10:00 GMT", 0, 600),
            ("Expires: Sat, 01 Nov 2025 00:10:00 GMT", 240, 360),
            ("Expires: Sat, 01 Nov 2025 00:10:00 GMT\r\nAge: 300", 240, 300),
            ("Expires: Sat, 01 Nov 2025 00:10:00 GMT", 700, 0),
            ("Expires: Sat, 01 Nov 2025 00:10:00 GMT", -3600, 600),
            ("Cache-Control: max-age=300", 100, 200),
            ("Cache-Control: max-age=300\r\nAge: 200", 100, 100),
            ("Cache-Control: max-age=300", 400, 0),
            ("Cache-Control: max-age=300", -3600, 300),
            ("Cache-Control: private", 400, 60),
        ],
    )
    @pytest.mark.parametrize("zone", ["GMT", "-0000"])
    def test_an_answer_ages_before_it_arrives(self, head: str, arrived: int, seconds: int, zone: str) -> None:
        date = datetime(2025, 11, 1, tzinfo=UTC)
        lines = f"HTTP/1.1 200 OK\r\nDate: Sat, 01 Nov 2025 00:00:00 {zone}\r\n{head}\r\n\r\n".encode()
        answer = page(1, head=lines, fetched_at=date + timedelta(seconds=arrived))
        assert get_lifetime(answer, timedelta(seconds=60)) == timedelta(seconds=seconds)

    @pytest.mark.parametrize("date", ["", "Date: now\r\n", "Date: Mon, 01 Jan 99999999999 00:00:00 GMT\r\n"])
    def test_without_a_date_an_expiry_counts_from_the_answer(self, date: str) -> None:
        soon = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
        found = get_lifetime(page(1, head=f"{date}Expires: {soon}\r\n".encode()), timedelta())
        assert timedelta(minutes=59) < found <= timedelta(hours=1)


class TestFetching:
    def test_a_second_run_asks_for_nothing(self, tmp_path: Path, bad_server: BadServer) -> None:
        urls = [bad_server.url(f"/good?{each}") for each in range(30)]
        first = fetch(tmp_path, urls)
        assert sum(each.received for each in first) > 0
        again = fetch(tmp_path, urls)
        assert again == first
        assert sum(each.received for each in again) == 0
        assert bad_server.requests["/good"] == 30

    @pytest.mark.parametrize(("age", "lifetime"), [(900, 0), (0, DAY)])
    def test_unless_the_lifetime_is_zero_or_the_servers_max_age_has_passed(
        self, age: int, lifetime: int, tmp_path: Path, bad_server: BadServer
    ) -> None:
        for _ in range(2):
            url = bad_server.url("/said?header=" + quote(f"Cache-Control: max-age={age}"))
            fetch(tmp_path, [url], lifetime_seconds=lifetime)
        assert bad_server.requests["/said"] == 2

    def test_a_run_uses_pages_that_it_fetched_itself(self, tmp_path: Path, bad_server: BadServer) -> None:
        began = datetime.now(UTC)
        for _ in range(3):
            url = bad_server.url("/said?header=" + quote("Cache-Control: no-cache"))
            fetch(tmp_path, [url], since=began, lifetime_seconds=0)
        assert bad_server.requests["/said"] == 1

    @pytest.mark.parametrize("path", ["/said?header=Cache-Control: no-store", "/status?code=500", "/status?code=403"])
    def test_private_pages_are_cached_only_for_the_run(self, path: str, tmp_path: Path, bad_server: BadServer) -> None:
        began, url = datetime.now(UTC), bad_server.url(path.replace(" ", "%20"))
        for run in ("a", "a", "b"):
            fetch(tmp_path / "shared", [url], private=str(tmp_path / run), since=began)
        assert sum(bad_server.requests.values()) == 2
        assert not (tmp_path / "shared").exists()

    @pytest.mark.parametrize("header", ["Vary: *", "Vary: Accept, *"])
    def test_an_answer_to_no_other_request_is_never_cached(
        self, header: str, tmp_path: Path, bad_server: BadServer
    ) -> None:
        began, url = datetime.now(UTC), bad_server.url("/said?header=" + quote(header))
        for _ in range(2):
            fetch(tmp_path / "shared", [url], private=str(tmp_path / "a"), since=began)
        assert bad_server.requests["/said"] == 2

    def test_a_page_is_asked_for_once_within_a_run(self, tmp_path: Path, bad_server: BadServer) -> None:
        options = FetchOptions(allow_networks=("127.0.0.1/32",))
        with cache(tmp_path) as kept, HttpFetcher(options, cache=kept) as fetcher:
            for _ in range(3):
                pages = list(fetcher.fetch([(bad_server.url("/good#part"), 1)]))
                assert [(page.requested_url[-5:], page.body != b"", tag) for page, tag in pages] == [("#part", True, 1)]
        assert bad_server.requests["/good"] == 1

    @pytest.mark.parametrize("path", ["/nowhere", "/status?code=410"])
    def test_an_earlier_error_is_preserved(self, path: str, tmp_path: Path, bad_server: BadServer) -> None:
        statuses = {fetch(tmp_path, [bad_server.url(path)])[0].status for _ in range(2)}
        assert len(statuses) == 1
        assert sum(bad_server.requests.values()) == 1

    @pytest.mark.parametrize(
        "path", ["/status?code=503", "/status?code=429", "/reset", "/too-short", "/large?size=20000000"]
    )
    def test_temporary_failures_are_not_remembered(self, path: str, tmp_path: Path, bad_server: BadServer) -> None:
        for _ in range(2):
            fetch(tmp_path, [bad_server.url(path)], private=str(tmp_path / "own"))
        assert sum(bad_server.requests.values()) == 2

    def test_an_old_page_is_asked_for_by_its_validators(self, tmp_path: Path, bad_server: BadServer) -> None:
        url = bad_server.url("/validated?etag=v1")
        (first,) = fetch(tmp_path, [url])
        (again,) = fetch(tmp_path, [url], lifetime_seconds=0)
        assert bad_server.headers["/validated"]["if-none-match"] == '"v1"'
        assert bad_server.headers["/validated"]["if-modified-since"] == "Sat, 01 Nov 2025 00:00:00 GMT"
        assert (again.status, again.body, again.content_type) == (200, first.body, "text/html")
        assert again.fetched_at > first.fetched_at
        (kept,) = fetch(tmp_path, [url])
        assert kept == again
        assert bad_server.requests["/validated"] == 2
        fetch(tmp_path, [url], lifetime_seconds=0)
        assert bad_server.headers["/validated"]["if-modified-since"] == "Sat, 01 Nov 2025 00:00:00 GMT"

    def test_a_validator_may_hold_any_bytes(self, tmp_path: Path, bad_server: BadServer) -> None:
        url = bad_server.url(f"/said?header={quote('ETag: é')}")
        for _ in range(2):
            (found,) = fetch(tmp_path, [url], lifetime_seconds=0)
            assert (found.ok, found.header("etag")) == (True, "é")
        assert bad_server.headers["/said"]["if-none-match"] == "é"

    def test_the_header_of_a_page_that_never_changes_does_not_grow(self) -> None:
        kept = page(1)
        for number in range(20):
            lines = b"X-%d: %s\r\nETag: y\r\n" % (number, b"a" * 20_000)
            kept = refresh_page(kept, page(1, status=304, head=b"HTTP/1.1 304 Not Modified\r\n" + lines + b"\r\n"))
            assert kept.headers("etag") == ["y"]
            assert len(kept.head) < 100_000
        assert (kept.status, kept.body) == (200, b"<p>body</p>")

    def test_an_old_page_that_changed_is_replaced(self, tmp_path: Path, bad_server: BadServer) -> None:
        url = bad_server.url("/counted")
        bodies = [fetch(tmp_path, [url], lifetime_seconds=0)[0].body for _ in range(3)]
        assert bodies == [b"<p>1", b"<p>2", b"<p>3"]

    def test_conditions_are_not_sent_with_the_next_request(self, tmp_path: Path, bad_server: BadServer) -> None:
        url = bad_server.url("/validated?etag=v1")
        fetch(tmp_path, [url])
        options = FetchOptions(allow_networks=("127.0.0.1/32",), concurrency=1)
        with cache(tmp_path, 0) as kept, HttpFetcher(options, cache=kept) as fetcher:
            assert all(page.ok for page, _ in fetcher.fetch([(url, 1), (bad_server.url("/good"), 2)]))
        assert "if-none-match" not in bad_server.headers["/good"]
