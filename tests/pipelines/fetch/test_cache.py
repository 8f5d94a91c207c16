from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipelines.fetch import FetchOptions, HttpFetcher, Page
from pipelines.fetch.cache import PageCache
from tests.pipelines.fetch.bad_server import BadServer

DAY = timedelta(days=1)


def page(number: int, body: bytes = b"<p>body</p>", **changes: object) -> Page:
    url = f"http://shop.test/{number}?q=%C3%BC"
    made = Page(
        url, url + "&final", 200, None, "text/html", "utf-8", body, datetime.now(UTC), (url + "&a",), b"ETag: x\r\n"
    )
    return replace(made, **changes)


def cache(folder: Path, lifetime: timedelta = DAY) -> PageCache:
    return PageCache(str(folder), lifetime)


def fetch(folder: Path, urls: list[str], lifetime: timedelta = DAY) -> list[Page]:
    options = FetchOptions(allow_networks=("127.0.0.1/32",), concurrency=4, retries=0)
    with HttpFetcher(options, cache(folder, lifetime)) as fetcher:
        found = {tag: page for page, tag in fetcher.fetch((url, at) for at, url in enumerate(urls))}
    return [found[at] for at in range(len(urls))]


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


class TestPages:
    def test_come_back_as_they_were_put(self, tmp_path: Path) -> None:
        pages = [page(each, bytes(range(256)) * each) for each in range(200)]
        kept = cache(tmp_path)
        for each in pages:
            kept.put(each)
        assert [kept.get(each.requested_url) for each in pages] == pages
        kept.flush()
        assert [kept.get(each.requested_url) for each in pages] == pages
        assert [cache(tmp_path).get(each.requested_url) for each in reversed(pages)] == pages[::-1]

    def test_that_are_not_there_are_none(self, tmp_path: Path) -> None:
        assert cache(tmp_path / "new" / "folder").get("http://shop.test/") is None

    def test_are_told_apart_by_the_actions_that_brought_them(self, tmp_path: Path) -> None:
        kept = cache(tmp_path)
        kept.put(page(1, b"plain"))
        kept.put(page(1, b"scrolled"), "scroll_to_bottom")
        kept.flush()
        for each in (kept, cache(tmp_path)):
            url = page(1).requested_url
            found = [each.get(url), each.get(url, "scroll_to_bottom"), each.get(url, "wait")]
            assert [one.body if one else None for one in found] == [b"plain", b"scrolled", None]

    def test_are_replaced_by_newer_ones(self, tmp_path: Path) -> None:
        for body in (b"first", b"second", b"third"):
            kept = cache(tmp_path)
            kept.put(page(1, body))
            kept.flush()
        found = cache(tmp_path).get(page(1).requested_url)
        assert found is not None
        assert found.body == b"third"

    def test_share_files(self, tmp_path: Path) -> None:
        kept = cache(tmp_path)
        for each in range(3000):
            kept.put(page(each))
        kept.flush()
        assert len(files(tmp_path)) == 1
        kept.flush()
        assert len(files(tmp_path)) == 1

    def test_are_written_before_they_fill_the_memory(self, tmp_path: Path) -> None:
        kept = cache(tmp_path)
        for each in range(20):
            kept.put(page(each, os.urandom(2 * 2**20)))
        assert len(files(tmp_path)) == 1

    def test_of_several_writers_are_all_found(self, tmp_path: Path) -> None:
        writers = [cache(tmp_path) for _ in range(3)]
        for number, writer in enumerate(writers):
            writer.put(page(number))
            writer.flush()
        assert all(cache(tmp_path).get(page(each).requested_url) for each in range(3))

    def test_half_a_file_is_no_file(self, tmp_path: Path) -> None:
        kept = cache(tmp_path)
        kept.put(page(1))
        kept.flush()
        (whole,) = files(tmp_path)
        (tmp_path / "0-killed.parquet.part").write_bytes(whole.read_bytes()[:100])
        assert cache(tmp_path).get(page(1).requested_url) is not None

    def test_survive_a_kill_once_they_are_written(self, tmp_path: Path) -> None:
        script = (
            "import os, signal, sys\n"
            "from tests.pipelines.fetch.test_cache import cache, page\n"
            "from pathlib import Path\n"
            "kept = cache(Path(sys.argv[1]))\n"
            "for each in range(5000):\n"
            "    kept.put(page(each))\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
        assert done.returncode == -signal.SIGKILL
        kept = cache(tmp_path)
        assert sum(kept.get(page(each).requested_url) is not None for each in range(5000)) == 4096


class TestFetching:
    def test_a_second_run_asks_for_nothing(self, tmp_path: Path, bad_server: BadServer) -> None:
        urls = [bad_server.url(f"/good?{each}") for each in range(30)]
        first = fetch(tmp_path, urls)
        asked = bad_server.requests["/good"]
        assert fetch(tmp_path, urls) == first
        assert asked == bad_server.requests["/good"] == 30

    def test_a_page_is_asked_for_once_within_a_run(self, tmp_path: Path, bad_server: BadServer) -> None:
        with HttpFetcher(FetchOptions(allow_networks=("127.0.0.1/32",)), cache(tmp_path)) as fetcher:
            for _ in range(3):
                pages = list(fetcher.fetch([(bad_server.url("/good#part"), 1)]))
                assert [(page.body != b"", tag) for page, tag in pages] == [(True, 1)]
        assert bad_server.requests["/good"] == 1

    @pytest.mark.parametrize(("path", "asked"), [("/nowhere", 1), ("/status?code=410", 1), ("/status?code=500", 1)])
    def test_an_error_that_stands_is_kept(self, path: str, asked: int, tmp_path: Path, bad_server: BadServer) -> None:
        statuses = {fetch(tmp_path, [bad_server.url(path)])[0].status for _ in range(2)}
        assert len(statuses) == 1
        assert sum(bad_server.requests.values()) == asked

    @pytest.mark.parametrize(
        "path", ["/status?code=503", "/status?code=429", "/reset", "/too-short", "/large?size=20000000"]
    )
    def test_what_may_be_better_next_time_is_not(self, path: str, tmp_path: Path, bad_server: BadServer) -> None:
        for _ in range(2):
            fetch(tmp_path, [bad_server.url(path)])
        assert sum(bad_server.requests.values()) == 2

    def test_an_old_page_is_asked_for_by_its_validators(self, tmp_path: Path, bad_server: BadServer) -> None:
        url = bad_server.url("/validated?etag=v1")
        (first,) = fetch(tmp_path, [url])
        (again,) = fetch(tmp_path, [url], lifetime=timedelta(0))
        assert bad_server.headers["/validated"]["if-none-match"] == '"v1"'
        assert bad_server.headers["/validated"]["if-modified-since"] == "Sat, 01 Nov 2025 00:00:00 GMT"
        assert (again.status, again.body) == (200, first.body)
        assert again.fetched_at > first.fetched_at
        (kept,) = fetch(tmp_path, [url])
        assert kept == again
        assert bad_server.requests["/validated"] == 2

    def test_an_old_page_that_changed_is_replaced(self, tmp_path: Path, bad_server: BadServer) -> None:
        url = bad_server.url("/counted")
        bodies = [fetch(tmp_path, [url], lifetime=timedelta(0))[0].body for _ in range(3)]
        assert bodies == [b"<p>1", b"<p>2", b"<p>3"]

    def test_conditions_are_not_sent_with_the_next_request(self, tmp_path: Path, bad_server: BadServer) -> None:
        url = bad_server.url("/validated?etag=v1")
        fetch(tmp_path, [url])
        options = FetchOptions(allow_networks=("127.0.0.1/32",), concurrency=1)
        with HttpFetcher(options, cache(tmp_path, timedelta(0))) as fetcher:
            assert all(page.ok for page, _ in fetcher.fetch([(url, 1), (bad_server.url("/good"), 2)]))
        assert "if-none-match" not in bad_server.headers["/good"]
