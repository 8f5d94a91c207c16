"""Tasks that are led to each other's pages: real fetchers with real claims on one coordinator, without Spark."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.coordination import claims, owners
from pipelines.coordination.channel import Channel
from pipelines.coordination.claims import Claims
from pipelines.coordination.coordinator import Coordinator
from pipelines.coordination.leases import Leases
from pipelines.coordination.others import Moved, News
from pipelines.fetch import FetchOptions, HttpFetcher, Page
from pipelines.page_cache.cache import CacheOptions, PageCache
from pipelines.page_cache.groups import Place
from tests.support.pipeline_site import Site, serving

OPTIONS = FetchOptions(allow_networks=("127.0.0.1/32",), retries=0, per_host=8, robots=False)
SECONDS = 120
Found = dict[str, Page]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


def fetched(
    coordinator: Coordinator, folder: Path, urls: list[str], options: FetchOptions = OPTIONS, seconds: float = 0.0
) -> Found:
    """What a task brings, by the address that was asked for; its reader takes so many seconds for each page."""
    found = Found()
    channel = Channel(coordinator.endpoint, "pass/0")
    with (
        Claims(coordinator.endpoint, "pass") as others,
        PageCache(CacheOptions(str(folder), coordinator.endpoint.pages)) as cache,
        HttpFetcher(options, Leases(channel, options), cache, others) as fetcher,
    ):
        for page, url in fetcher.fetch((url, url) for url in urls):
            assert page.requested_url == url
            found[url] = page
            time.sleep(seconds)
    channel.finish()
    return found


def side_by_side(
    parts: list[list[str]], folder: Path, options: FetchOptions = OPTIONS, seconds: float = 0.0
) -> list[Found]:
    with Coordinator(options) as coordinator, ThreadPoolExecutor(len(parts)) as threads:
        tasks = [threads.submit(fetched, coordinator, folder, part, options, seconds) for part in parts]
        return [task.result(SECONDS) for task in tasks]


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_asked_for_twice_wherever_redirects_lead(seed: int, site: Site, tmp_path: Path) -> None:
    """Trees of redirects over pages that may all be linked, tasks, places and slowness: as the seed has it."""
    choose = random.Random(seed)
    paths = [f"/{number}" for number in range(120)]
    base = site.serve({path: f"<p>{path}" for path in paths})
    leading = choose.choice((0.2, 0.5, 0.9))
    site.moved = {
        path: paths[choose.randrange(at)] for at, path in enumerate(paths) if at and choose.random() < leading
    }
    site.seconds = choose.choice((0.0, 0.003, 0.02))
    linked = choose.sample(paths, 100)
    number = choose.choice((2, 2, 3, 5))
    options = replace(OPTIONS, concurrency=choose.choice((1, 2, 16)), delay=choose.choice((0, 0, 0.002)))
    parts = [[base + path for path in linked[at::number]] for at in range(number)]

    def end(path: str) -> str:
        return end(site.moved[path]) if path in site.moved else path

    found = side_by_side(parts, tmp_path, options, choose.choice((0.0, 0.0, 0.01)))
    assert [sorted(pages) for pages in found] == [sorted(part) for part in parts]
    for pages in found:
        for url, page in pages.items():
            path = url.removeprefix(base)
            assert (page.url, page.body, page.error) == (base + end(path), f"<p>{end(path)}".encode(), None)
            assert len(page.redirects) == max(0, len(list(way(path, site.moved))) - 1)
    assert {path: asked for path, asked in site.requests.items() if asked > 1} == {}


def way(path: str, moved: dict[str, str]) -> Iterator[str]:
    while path := moved.get(path, ""):
        yield path


def test_redirects_in_a_circle_end_as_before(site: Site, tmp_path: Path) -> None:
    base = site.serve(dict.fromkeys(("/a", "/b", "/c"), ""))
    site.moved = {"/a": "/b", "/b": "/c", "/c": "/a"}
    site.seconds = 0.005
    found = side_by_side([[f"{base}/a"], [f"{base}/b"], [f"{base}/c"]], tmp_path)
    assert {page.error for pages in found for page in pages.values()} == {"redirects more than 20 times"}


@pytest.mark.parametrize(
    ("status", "held", "error"),
    [(503, False, None), (500, False, None), (200, True, "timed out")],
)
def test_what_fails_is_tried_by_each_and_told_to_each(
    status: int, held: bool, error: str | None, site: Site, tmp_path: Path
) -> None:
    """Three tasks are led to a page that fails or hangs; it may be that it would have come at another try."""
    base = site.serve({"/home": status if status != 200 else "<p>home"} | {f"/{each}": "" for each in range(6)})
    site.moved = {f"/{each}": "/home" for each in range(6)}
    site.seconds, site.held = 0.01, {"/home"} if held else set()
    options = replace(OPTIONS, total_timeout=0.5, backoff=0.01)
    found = side_by_side([[f"{base}/{each}", f"{base}/{each + 3}"] for each in range(3)], tmp_path, options)
    site.held = set()
    pages = [page for each in found for page in each.values()]
    assert len(pages) == 6
    assert {page.status for page in pages} == {None if held else status}
    assert all((error or "") in (page.error or "") for page in pages)
    # an answer of 500 is final; of what may be better the next time nothing is kept
    assert site.requests["/home"] == (1 if status == 500 else 6)


class Another:
    """A task of the test's own, which claims `url` and does with it what it likes."""

    def __init__(self, coordinator: Coordinator, folder: Path, url: str) -> None:
        self.claims = Claims(coordinator.endpoint, "other")
        self.cache = PageCache(CacheOptions(str(folder), coordinator.endpoint.pages))
        self.url, self.key = url, self.cache.key(url)
        assert not self.claims.claim([self.key])

    def __enter__(self) -> Another:
        return self

    def __exit__(self, *about: object) -> None:
        self.cache.close()
        self.claims.__exit__(None, None, None)

    def hears(self) -> None:
        """Waits until somebody wants the page."""
        end = time.monotonic() + SECONDS
        while not self.claims.news():
            assert time.monotonic() < end
            time.sleep(0.01)

    def keeps(self) -> Place | None:
        page = Page(self.url, self.url, 200, None, "text/html", "utf-8", b"<p>another's", datetime.now(UTC))
        self.cache.put(page)
        return self.cache.place(self.key)


@pytest.fixture
def base(site: Site) -> str:
    site.serve({"/old": "", "/new": "<p>own", **{f"/{each}": "<p>" for each in range(10)}})
    site.moved = {"/old": "/new"}
    return site.url


def test_who_waits_for_anothers_page_goes_on_with_its_own_and_takes_it_when_it_is_kept(
    base: str, site: Site, tmp_path: Path
) -> None:
    urls = [f"{base}/old", *(f"{base}/{each}" for each in range(10))]
    options = replace(OPTIONS, concurrency=1)
    with (
        Coordinator(options) as coordinator,
        ThreadPoolExecutor(1) as threads,
        Another(coordinator, tmp_path, f"{base}/new") as other,
    ):
        running = threads.submit(fetched, coordinator, tmp_path, urls, options)
        other.hears()
        end = time.monotonic() + SECONDS
        while site.requests["/9"] == 0:
            assert time.monotonic() < end
            time.sleep(0.01)
        other.claims.over(other.key, other.keeps())
        found = running.result(SECONDS)
    assert found[f"{base}/old"].body == b"<p>another's"
    assert (found[f"{base}/old"].url, site.requests["/new"]) == (f"{base}/new", 0)


@pytest.mark.parametrize("kept", [False, True])
def test_what_a_task_that_is_gone_had_is_found_or_asked_for(kept: bool, base: str, site: Site, tmp_path: Path) -> None:
    with Coordinator(OPTIONS) as coordinator, ThreadPoolExecutor(1) as threads:
        with Another(coordinator, tmp_path, f"{base}/new") as other:
            running = threads.submit(fetched, coordinator, tmp_path, [f"{base}/old"])
            other.hears()
            if kept:
                other.keeps()
        found = running.result(SECONDS)
    assert found[f"{base}/old"].body == (b"<p>another's" if kept else b"<p>own")
    assert site.requests["/new"] == (0 if kept else 1)


def test_what_was_kept_is_asked_for_where_it_is_not_to_be_found(base: str, site: Site, tmp_path: Path) -> None:
    with (
        Coordinator(OPTIONS) as coordinator,
        ThreadPoolExecutor(1) as threads,
        Another(coordinator, tmp_path, f"{base}/new") as other,
    ):
        running = threads.submit(fetched, coordinator, tmp_path, [f"{base}/old"])
        other.hears()
        other.claims.over(other.key, Place(str(tmp_path / "gone.pages"), 0))
        assert running.result(SECONDS)[f"{base}/old"].body == b"<p>own"


def test_nobody_waits_for_ever_for_a_task_that_is_silent(
    base: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are read by nobody: whoever fetches does not come to it."""
    monkeypatch.setattr(owners, "PATIENCE", 0.5)
    monkeypatch.setattr(claims, "_STILL_SECONDS", 0.1)
    with (
        Coordinator(OPTIONS) as coordinator,
        ThreadPoolExecutor(1) as threads,
        Another(coordinator, tmp_path, f"{base}/new") as other,
    ):
        running = threads.submit(fetched, coordinator, tmp_path, [f"{base}/old"])
        end = time.monotonic() + 1.5
        while time.monotonic() < end:  # it is slow, but lives
            other.claims.news()
            time.sleep(0.05)
        assert site.requests["/new"] == 0
        assert running.result(SECONDS)[f"{base}/old"].body == b"<p>own"
    assert site.requests["/new"] == 1


@pytest.mark.parametrize("length", [1500, 8000])
def test_a_task_that_reads_no_messages_keeps_no_other_waiting(length: int) -> None:
    """More is sent to it than its socket holds, as a site that redirects to long addresses may bring about."""
    keys = range(4096)
    with Coordinator(OPTIONS) as coordinator, ThreadPoolExecutor(1) as thread, ExitStack() as stack:
        owner, resting, third = (stack.enter_context(Claims(coordinator.endpoint, name)) for name in "abc")
        owner.claim(keys)
        assert len(resting.claim(keys)) == len(keys)
        told = thread.submit(lambda: [owner.moved(key, f"http://shop.test/?{'a' * length}") for key in keys])
        told.result(SECONDS)
        assert third.claim([len(keys)]) == set()
        news = list[News]()
        while len(news) < len(keys):
            news.extend(resting.news())
        longest = max(len(each.address) if isinstance(each, Moved) else 0 for each in news)
        assert longest == (len("http://shop.test/?") + length if length < 2000 else 0)


def test_pages_are_claimed_by_lots_and_of_those_nobody_wants_nothing_more_is_said(site: Site, tmp_path: Path) -> None:
    base = site.serve({f"/{each}": "<p>" for each in range(200)})
    urls = [f"{base}/{each}" for each in range(200)]
    heard = list[str]()

    class Listening(Coordinator):
        def take(self, connection: str, message: dict[str, object]) -> None:
            if "keys" in message:
                heard.append(str(message["kind"]))
            super().take(connection, message)

    with Listening(OPTIONS) as coordinator:
        assert len(fetched(coordinator, tmp_path, urls)) == 200
    assert heard == ["claim"] * 3  # of nothing, when it comes, and of 128 pages at most


def test_what_waits_to_be_started_is_no_more_than_a_lot(site: Site, tmp_path: Path) -> None:
    base = site.serve({f"/{each}": "<p>" for each in range(200)})
    pulled = list[int]()

    def urls() -> Iterator[tuple[str, int]]:
        for each in range(200):
            pulled.append(each)
            yield f"{base}/{each}", each

    options = replace(OPTIONS, concurrency=2, per_host=2)
    with (
        Coordinator(options) as coordinator,
        Claims(coordinator.endpoint, "pass") as others,
        PageCache(CacheOptions(str(tmp_path))) as cache,
        HttpFetcher(options, None, cache, others) as fetcher,
    ):
        for at, _ in enumerate(fetcher.fetch(urls())):
            assert len(pulled) <= at + 2 + 128 + 1
