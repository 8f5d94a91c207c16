from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from pipelines.fetch import FetchOptions, HttpFetcher, Page
from pipelines.fetch.page import refresh_page
from pipelines.fetch.queue import RequestQueue
from pipelines.fetch.throttle import LocalHostThrottle
from pipelines.page_cache.cache import CacheOptions, PageCache
from pipelines.page_cache.freshness import lifetime
from pipelines.page_cache.groups import SUFFIX, Entry, GroupReader, GroupWriter, keys
from pipelines.page_cache.index import Index
from pipelines.page_cache.retention import tidy
from tests.support.bad_server import BadServer

DAY = 86400
GIB = 2**30


def page(number: int, body: bytes = b"<p>body</p>", **changes: object) -> Page:
    url = f"http://shop.test/{number}?q=%C3%BC"
    made = Page(
        url, url + "&final", 200, None, "text/html", "utf-8", body, datetime.now(UTC), (url + "&a",), b"ETag: x\r\n"
    )
    return replace(made, **changes)


def cache(folder: Path, lifetime: float = DAY, variant: str = "", own: Path | None = None) -> PageCache:
    made = PageCache(
        CacheOptions(shared=str(folder), private=str(own) if own else None, lifetime_seconds=lifetime), variant
    )
    opened.append(made)
    return made


opened: list[PageCache] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Caches that a test leaves open hold files."""
    yield
    while opened:
        opened.pop().close()


def fetch(folder: Path, urls: list[str], **changes: object) -> list[Page]:
    """The pages of a run by itself."""
    options = FetchOptions(allow_networks=("127.0.0.1/32",), concurrency=4, retries=0)
    with (
        PageCache(CacheOptions(**{"shared": str(folder), "lifetime_seconds": DAY, **changes})) as kept,
        HttpFetcher(options, cache=kept) as fetcher,
    ):
        found = {tag: page for page, tag in fetcher.fetch((url, at) for at, url in enumerate(urls))}
    return [found[at] for at in range(len(urls))]


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


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


class TestPages:
    def test_come_back_as_they_were_put(self, tmp_path: Path) -> None:
        pages = [page(each, bytes(range(256)) * each) for each in range(200)]
        with cache(tmp_path) as kept:
            for each in pages:
                kept.put(each)
            assert [kept.get(each.requested_url) for each in pages] == pages
        assert [cache(tmp_path).get(each.requested_url) for each in reversed(pages)] == pages[::-1]

    def test_that_are_not_there_are_none(self, tmp_path: Path) -> None:
        assert cache(tmp_path / "new" / "folder").get("http://shop.test/") is None

    def test_are_told_apart_by_what_brought_them(self, tmp_path: Path) -> None:
        for variant in ("", "scroll_to_bottom"):
            with cache(tmp_path, variant=variant) as kept:
                kept.put(page(1, variant.encode()))
        found = [cache(tmp_path, variant=each).get(page(1).requested_url) for each in ("", "scroll_to_bottom", "wait")]
        assert [one.body if one else None for one in found] == [b"", b"scroll_to_bottom", None]

    def test_are_replaced_by_newer_ones(self, tmp_path: Path) -> None:
        for body in (b"first", b"second", b"third"):
            with cache(tmp_path) as kept:
                kept.put(page(1, body))
        found = cache(tmp_path).get(page(1).requested_url)
        assert found is not None
        assert found.body == b"third"

    def test_share_files(self, tmp_path: Path) -> None:
        with cache(tmp_path) as kept:
            for each in range(3000):
                kept.put(page(each))
        assert len(files(tmp_path)) == 1

    def test_are_on_disk_after_a_second(self, tmp_path: Path) -> None:
        kept = cache(tmp_path)
        kept.put(page(1))
        assert cache(tmp_path).get(page(1).requested_url) is None
        time.sleep(1)
        kept.tick()
        assert cache(tmp_path).get(page(1).requested_url) == kept.get(page(1).requested_url) is not None
        kept.close()

    def test_of_several_writers_are_all_found(self, tmp_path: Path) -> None:
        writers = [cache(tmp_path) for _ in range(3)]
        for number, writer in enumerate(writers):
            writer.put(page(number))
            writer.close()
        assert all(cache(tmp_path).get(page(each).requested_url) for each in range(3))

    @pytest.mark.parametrize(("lost", "found"), [(0, 128), (4, 64), (100, 64), (60_000, 64), (80_000, 0)])
    def test_before_a_broken_end_are_found(self, lost: int, found: int, tmp_path: Path) -> None:
        with cache(tmp_path) as kept:
            for each in range(128):
                kept.put(page(each, os.urandom(1000)))
        (file,) = files(tmp_path)
        os.truncate(file, file.stat().st_size - lost)
        broken = cache(tmp_path)
        assert sum(broken.get(page(each).requested_url) is not None for each in range(128)) == found

    def test_that_the_disk_has_changed_are_not_there_nor_are_their_group(self, tmp_path: Path) -> None:
        with cache(tmp_path) as kept:
            for each in range(192):
                kept.put(page(each, os.urandom(1000)))
        (file,) = files(tmp_path)
        whole = file.read_bytes()
        _, (second, _), (third, _) = keys(str(file))
        for at in range(second + 8, third, 997):
            content = bytearray(whole)
            content[at] ^= 1
            file.write_bytes(content)
            changed = cache(tmp_path)
            found = [changed.get(page(each).requested_url) is not None for each in range(192)]
            assert found[:64] == [True] * 64
            assert not any(found[64:128])

    def test_of_which_any_bit_was_flipped_are_as_they_were_or_not_there(self, tmp_path: Path) -> None:
        """In a header, key, start, status, redirect or body: as they were kept, to the last field."""
        pages = [page(each, b"%d" % each * 9, status=404) for each in range(3)]
        pages.append(page(3, os.urandom(40) * 1000))
        with cache(tmp_path) as kept:
            for each in pages:
                kept.put(each)
        (file,) = files(tmp_path)
        whole = file.read_bytes()
        for at in range(len(whole)):
            file.write_bytes(whole[:at] + bytes((whole[at] ^ 1 << at % 8,)) + whole[at + 1 :])
            with cache(tmp_path) as changed:
                found = [changed.get(each.requested_url) for each in pages]
            opened.clear()
            assert all(one in (None, put) for one, put in zip(found, pages, strict=True))
            assert None in found

    def test_that_are_large_come_back_from_more_files_than_stay_open(self, tmp_path: Path) -> None:
        pages = [page(each, os.urandom(100) * size) for each, size in enumerate([327, 328, 600, 1000, 1] * 8)]
        for each in pages:
            with cache(tmp_path) as kept:
                kept.put(each)
        reader = cache(tmp_path)
        for _ in range(2):
            assert [reader.get(each.requested_url) for each in pages] == pages

    def test_that_are_large_stand_alone(self, tmp_path: Path) -> None:
        """Else whoever wants a small one beside it reads it whole."""
        with cache(tmp_path) as kept:
            for each in range(6):
                kept.put(page(each, os.urandom(200_000 if each == 3 else 100)))
        (file,) = files(tmp_path)
        assert [len(group) for _, group in keys(str(file))] == [3, 1, 2]

    def test_of_some_size_are_written_at_once(self, tmp_path: Path) -> None:
        with cache(tmp_path) as kept:
            kept.put(page(1, os.urandom(40_000)))
            assert cache(tmp_path).get(page(1).requested_url) is not None

    def test_that_a_loss_of_power_left_half_are_as_they_were_or_not_there(self, tmp_path: Path) -> None:
        """A file with zeros from some byte on, and one that ends at any."""
        entries = [(number, "", page(number, b"%d" % number)) for number in range(6)]
        writer = GroupWriter(tmp_path)
        places = [writer.write(group) for group in (entries[:3], entries[3:])]
        writer.close()
        (file,) = files(tmp_path)

        def found() -> list[Entry | None]:
            assert len(list(keys(str(file)))) <= 2
            with closing(GroupReader()) as reader:
                groups = [reader.read(place) for place in places]
            return [group.get(key) for group in groups if group for key in range(6) if group.get(key)]

        assert found() == entries
        whole = file.read_bytes()
        for size in range(0, len(whole), 64):
            file.write_bytes(whole[:size].ljust(len(whole), b"\0"))
            assert all(entry in (None, put) for entry, put in zip(found(), entries, strict=False))
        file.write_bytes(whole)
        for size in range(len(whole) - 1, -1, -1):
            os.truncate(file, size)
            assert found() in ([], entries[:3])

    def test_survive_a_kill_once_they_are_written(self, tmp_path: Path) -> None:
        script = (
            "import os, signal, sys\n"
            "from tests.pipelines.page_cache.test_cache import cache, page\n"
            "from pathlib import Path\n"
            "kept = cache(Path(sys.argv[1]))\n"
            "for each in range(5000):\n"
            "    kept.put(page(each))\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
        assert done.returncode == -signal.SIGKILL
        kept = cache(tmp_path)
        assert 5000 - 64 <= sum(kept.get(page(each).requested_url) is not None for each in range(5000)) < 5000

    def test_whose_address_tells_a_secret_are_not_kept(self, tmp_path: Path) -> None:
        with PageCache(CacheOptions(str(tmp_path / "a"), str(tmp_path / "b"), secrets=("pa/ss word",))) as kept:
            for number, spelled in enumerate(("pa%2Fss%20word", "pa%2Fss+word", "pa/ss%20word")):
                url = f"http://x.test/?key={spelled}"
                kept.put(page(number, requested_url=url))
                kept.put(page(number, redirects=(url,)))
            kept.put(page(9))
        assert not (tmp_path / "b").exists()
        (file,) = files(tmp_path / "a")
        assert [cache(tmp_path / "a").get(page(each).requested_url) is None for each in (0, 1, 2, 9)] == [True] * 3 + [
            False
        ]
        assert b"word" not in file.read_bytes()


class TestKeys:
    # these two had the same key when it was xxh3 of the address, as any site can have it for any page of another
    GENUINE = "http://shop.test/product/1"
    COMPUTED = f"http://evil.test/{'p' * 46}aaaaaaaaaaaaPs1CaaaaaaaaaaaaM77Aaaaaaaaaaaaau5hAaaaaaaaaaaaaD1GK"

    def test_are_the_same_in_all_caches_of_a_folder(self, tmp_path: Path) -> None:
        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(cache, [tmp_path / "new" / "folder"] * 32))
        assert len({each.key(self.GENUINE) for each in made}) == 1
        alone, shared = tmp_path / "alone", tmp_path / "new" / "folder"
        assert cache(shared, own=alone).key(self.GENUINE) == made[0].key(self.GENUINE)
        assert PageCache(CacheOptions(private=str(alone))).key(self.GENUINE) != made[0].key(self.GENUINE)

    def test_are_made_with_what_nobody_else_reads(self, tmp_path: Path) -> None:
        cache(tmp_path)
        assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [("secret", 0o600)]

    def test_are_made_with_something_new_where_the_disk_has_lost_it(self, tmp_path: Path) -> None:
        first = cache(tmp_path).key(self.GENUINE)
        os.truncate(tmp_path / "secret", 16)
        second = cache(tmp_path).key(self.GENUINE)
        assert first != second == cache(tmp_path).key(self.GENUINE)

    def test_of_another_site_cannot_be_computed(self, tmp_path: Path) -> None:
        """Where they were the same, who wanted the page of one was led to where the other redirects."""
        options = FetchOptions()
        urls = [(url, None) for url in (self.COMPUTED, self.GENUINE)]
        with cache(tmp_path) as kept:
            queue = RequestQueue(urls, options, LocalHostThrottle(options), kept)
            [computed] = queue.starting(1)
            queue.redirected(computed, "http://evil.test/", 0.1)
            assert {each.address for each in queue.starting(16)} == {"http://evil.test/", self.GENUINE}

    def test_stay_when_the_folder_is_tidied(self, tmp_path: Path) -> None:
        first = cache(tmp_path).key(self.GENUINE)
        tidy(tmp_path, 0, 0)
        assert cache(tmp_path).key(self.GENUINE) == first


class TestTidying:
    def filled(self, folder: Path, number: int, pages: int = 10) -> None:
        with cache(folder) as kept:
            for each in range(pages):
                kept.put(page(number * pages + each, b"%d" % number * 100))

    def test_puts_many_small_files_together_and_every_page_is_found(self, tmp_path: Path) -> None:
        for number in range(40):
            self.filled(tmp_path, number)
        tidy(tmp_path, DAY, GIB)
        assert len(files(tmp_path)) == 1
        self.filled(tmp_path, 3)
        self.filled(tmp_path, 40)
        found = [cache(tmp_path).get(page(each).requested_url) for each in range(0, 410, 10)]
        assert [one.body if one else None for one in found] == [b"%d" % number * 100 for number in range(41)]

    def test_drops_what_was_replaced(self, tmp_path: Path) -> None:
        for body in range(60):
            with cache(tmp_path) as kept:
                kept.put(page(1, os.urandom(10_000)))
                kept.put(page(2, b"%d" % body))
        tidy(tmp_path, DAY, GIB)
        (file,) = files(tmp_path)
        assert file.stat().st_size < 20_000
        found = cache(tmp_path).get(page(2).requested_url)
        assert found is not None
        assert found.body == b"59"

    def test_again_and_again_keeps_everything_that_stays(self, tmp_path: Path) -> None:
        for number in range(60):
            self.filled(tmp_path, number)
            tidy(tmp_path, DAY, GIB)
        kept = cache(tmp_path)
        assert all(kept.get(page(each).requested_url) for each in range(600))
        assert len(files(tmp_path)) < 20

    def test_leaves_alone_what_is_being_written(self, tmp_path: Path) -> None:
        writer = cache(tmp_path)
        for each in range(64):
            writer.put(page(each))
        for number in range(30):
            self.filled(tmp_path, number + 10)
        tidy(tmp_path, 0, 0)
        assert len(files(tmp_path)) == 1
        writer.close()
        assert cache(tmp_path).get(page(1).requested_url) is not None

    def test_leaves_alone_what_is_about_to_be_written(self, tmp_path: Path) -> None:
        self.filled(tmp_path, 1)
        begun = tmp_path / files(tmp_path)[0].name.replace("-", "-0")
        begun.touch()
        tidy(tmp_path, 0, 0)
        assert files(tmp_path) == [begun]

    def test_removes_what_another_format_wrote_and_the_index_of_it(self, tmp_path: Path) -> None:
        for number in range(20):
            self.filled(tmp_path, number)
        tidy(tmp_path, DAY, GIB)
        (old,) = files(tmp_path)
        old.write_bytes(b"pages\r\n2" + old.read_bytes()[8:])
        self.filled(tmp_path, 20)
        assert cache(tmp_path).get(page(1).requested_url) is None
        tidy(tmp_path, DAY, GIB)
        assert not old.exists()
        assert Index.load(tmp_path).files == [file.name for file in files(tmp_path)]
        assert cache(tmp_path).get(page(200).requested_url) is not None

    def test_the_oldest_go_first(self, tmp_path: Path) -> None:
        for number in range(4):
            self.filled(tmp_path, number)
        size = files(tmp_path)[0].stat().st_size
        os.utime(files(tmp_path)[1], (0, 0))
        tidy(tmp_path, DAY, 2 * size + 100)
        kept = cache(tmp_path)
        assert [kept.get(page(each).requested_url) is None for each in (0, 10, 20, 30)] == [True, True, False, False]

    def test_a_page_that_is_tidied_away_meanwhile_is_none(self, tmp_path: Path) -> None:
        for number in range(20):
            self.filled(tmp_path, number)
        tidy(tmp_path, DAY, GIB)
        reader = cache(tmp_path)
        tidy(tmp_path, 0, 0)
        assert reader.get(page(1).requested_url) is None
        assert cache(tmp_path).get(page(1).requested_url) is None


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
            ("Date: Sat, 01 Nov 2025 00:00:00 -0000\r\nExpires: Sat, 01 Nov 2025 00:10:00 GMT", 600),
            ("Date: Sat, 01 Nov 2025 00:00:00 GMT\r\nExpires: Sat, 01 Nov 2025 00:10:00 GMT", 600),
            ("Cache-Control: max-age=5\r\nExpires: Sat, 01 Nov 2095 00:10:00 GMT", 5),
        ],
    )
    def test_is_what_the_server_says(self, head: str, seconds: int) -> None:
        answer = page(1, head=f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode())
        assert lifetime(answer, timedelta(seconds=60)) == timedelta(seconds=seconds)

    @pytest.mark.parametrize("date", ["", "Date: now\r\n", "Date: Mon, 01 Jan 99999999999 00:00:00 GMT\r\n"])
    def test_without_a_date_an_expiry_counts_from_the_answer(self, date: str) -> None:
        soon = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
        found = lifetime(page(1, head=f"{date}Expires: {soon}\r\n".encode()), timedelta())
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

    def test_unless_it_is_told_to(self, tmp_path: Path, bad_server: BadServer) -> None:
        for _ in range(2):
            fetch(tmp_path, [bad_server.url("/said?header=" + quote("Cache-Control: max-age=900"))], lifetime_seconds=0)
        assert bad_server.requests["/said"] == 2

    def test_or_the_page_is_older_than_the_server_lets_it_be(self, tmp_path: Path, bad_server: BadServer) -> None:
        for _ in range(2):
            fetch(tmp_path, [bad_server.url("/said?header=" + quote("Cache-Control: max-age=0"))])
        assert bad_server.requests["/said"] == 2

    def test_a_run_trusts_what_it_fetched_itself(self, tmp_path: Path, bad_server: BadServer) -> None:
        began = datetime.now(UTC)
        for _ in range(3):
            url = bad_server.url("/said?header=" + quote("Cache-Control: no-cache"))
            fetch(tmp_path, [url], since=began, lifetime_seconds=0)
        assert bad_server.requests["/said"] == 1

    @pytest.mark.parametrize("path", ["/said?header=Cache-Control: no-store", "/status?code=500", "/status?code=403"])
    def test_what_others_may_not_have_is_for_the_run_alone(
        self, path: str, tmp_path: Path, bad_server: BadServer
    ) -> None:
        began, url = datetime.now(UTC), bad_server.url(path.replace(" ", "%20"))
        for run in ("a", "a", "b"):
            fetch(tmp_path / "shared", [url], private=str(tmp_path / run), since=began)
        assert sum(bad_server.requests.values()) == 2
        assert files(tmp_path / "shared") == []

    def test_a_page_is_asked_for_once_within_a_run(self, tmp_path: Path, bad_server: BadServer) -> None:
        options = FetchOptions(allow_networks=("127.0.0.1/32",))
        with cache(tmp_path) as kept, HttpFetcher(options, cache=kept) as fetcher:
            for _ in range(3):
                pages = list(fetcher.fetch([(bad_server.url("/good#part"), 1)]))
                assert [(page.requested_url[-5:], page.body != b"", tag) for page, tag in pages] == [("#part", True, 1)]
        assert bad_server.requests["/good"] == 1

    @pytest.mark.parametrize("path", ["/nowhere", "/status?code=410"])
    def test_an_error_that_stands_is_kept(self, path: str, tmp_path: Path, bad_server: BadServer) -> None:
        statuses = {fetch(tmp_path, [bad_server.url(path)])[0].status for _ in range(2)}
        assert len(statuses) == 1
        assert sum(bad_server.requests.values()) == 1

    @pytest.mark.parametrize(
        "path", ["/status?code=503", "/status?code=429", "/reset", "/too-short", "/large?size=20000000"]
    )
    def test_what_may_be_better_next_time_is_not(self, path: str, tmp_path: Path, bad_server: BadServer) -> None:
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

    def test_an_expiry_that_is_no_date_ends_no_run(self, tmp_path: Path, bad_server: BadServer) -> None:
        url = bad_server.url("/said?header=" + quote("Expires: Mon, 01 Jan 99999999999 00:00:00 GMT"))
        assert [fetch(tmp_path, [url])[0].ok for _ in range(2)] == [True, True]

    def test_conditions_are_not_sent_with_the_next_request(self, tmp_path: Path, bad_server: BadServer) -> None:
        url = bad_server.url("/validated?etag=v1")
        fetch(tmp_path, [url])
        options = FetchOptions(allow_networks=("127.0.0.1/32",), concurrency=1)
        with cache(tmp_path, 0) as kept, HttpFetcher(options, cache=kept) as fetcher:
            assert all(page.ok for page, _ in fetcher.fetch([(url, 1), (bad_server.url("/good"), 2)]))
        assert "if-none-match" not in bad_server.headers["/good"]
