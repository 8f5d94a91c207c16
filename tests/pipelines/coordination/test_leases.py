"""Tasks that share hosts: real fetchers with real leases on one coordinator, without Spark."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.coordination.channel import Channel, DriverGone
from pipelines.coordination.coordinator import Coordinator
from pipelines.coordination.leases import Leases
from pipelines.fetch import FetchOptions, HttpFetcher
from pipelines.fetch.robots import Robots, Unreached, unreached
from pipelines.page_cache.cache import CacheOptions, PageCache
from tests.support.site import Site, serve_site

LOOPBACK = ("127.0.0.1/32",)
SECONDS = 120


@pytest.fixture(scope="module")
def sites() -> Iterator[list[Site]]:
    with ExitStack() as stack:
        yield [stack.enter_context(serve_site()) for _ in range(3)]


@dataclass(frozen=True)
class Task:
    """Its addresses; it stops after so many pages, as a task that fails does."""

    urls: list[str]
    pages: int

    def run(self, coordinator: Coordinator, options: FetchOptions, folder: Path) -> list[str]:
        channel = Channel(coordinator.endpoint, "pass/0")
        found: list[str] = []
        try:
            with (
                PageCache(CacheOptions(str(folder), coordinator.endpoint.pages)) as cache,
                HttpFetcher(options, Leases(channel, options), cache) as fetcher,
            ):
                for page, url in fetcher.fetch((url, url) for url in self.urls):
                    assert page.ok == (not url.endswith("/forbidden")), page
                    found.append(url)
                    if len(found) == self.pages:
                        return found
            channel.finish()
        finally:
            channel.close()
        return found


@pytest.mark.parametrize("seed", range(12))
def test_all_pages_come_whatever_the_mix(seed: int, sites: list[Site], tmp_path: Path) -> None:
    """Tasks, hosts, places, delays, kept and forbidden pages, tasks that break off: as the seed has it."""
    choose = random.Random(seed)
    paths = {f"/{number}": "<p>page" for number in range(60)}
    robots = {"/robots.txt": "User-agent: *\nDisallow: /forbidden"}
    bases = [site.serve({**paths, **robots}) for site in sites]
    options = FetchOptions(
        concurrency=choose.choice((1, 2, 16)),
        per_host=choose.choice((1, 1, 2, 8)),
        delay=choose.choice((0, 0, 0.005)),
        allow_networks=LOOPBACK,
    )
    urls = [choose.choice(bases) + choose.choice((path, path, path, "/forbidden")) for path in paths]
    with PageCache(CacheOptions(str(tmp_path))) as cache, HttpFetcher(options, cache=cache) as fetcher:
        kept = [url for url in urls if choose.random() < choose.choice((0.1, 0.9)) and not url.endswith("/forbidden")]
        list(fetcher.fetch((url, url) for url in kept))
    for site in sites:
        site.most_running, site.delay = 0, 0.003
    number = choose.choice((2, 3, 5, 8))
    parts = [urls[each::number] for each in range(number)]
    tasks = [Task(part, choose.choice((1, 5, 1000, 1000, 1000))) for part in parts]

    with Coordinator(options) as coordinator, ThreadPoolExecutor(number) as threads:
        running = [threads.submit(task.run, coordinator, options, tmp_path) for task in tasks]
        found = [each.result(SECONDS) for each in running]

    for task, pages in zip(tasks, found, strict=True):
        assert len(pages) == min(task.pages, len(task.urls))
        assert set(pages) <= set(task.urls)
    if all(task.pages == 1000 for task in tasks):  # requests of a task that broke off may still be answered
        assert all(site.most_running <= options.per_host for site in sites)


def test_two_tasks_that_hold_what_the_other_waits_for_go_on(sites: list[Site], tmp_path: Path) -> None:
    first, second = (site.serve({f"/{number}": "<p>page" for number in range(4)}) for site in sites[:2])
    options = FetchOptions(concurrency=1, per_host=1, allow_networks=LOOPBACK)
    meet = threading.Barrier(2, timeout=SECONDS)
    fetched, end = list[str](), time.monotonic() + SECONDS

    def run(name: str, mine: str, other: str) -> list[int | None]:
        def addresses() -> Iterator[tuple[str, None]]:
            yield f"{mine}/0", None
            meet.wait()
            yield f"{other}/1", None

        channel = Channel(coordinator.endpoint, name)
        leases = Leases(channel, options)
        with HttpFetcher(options, leases) as fetcher:
            found = [page.status for page, _ in fetcher.fetch(addresses())]
            fetched.append(name)
            while len(fetched) < 2 and time.monotonic() < end:  # neither gives back its places by ending
                leases.wait(0.05, sleep=True)
        channel.close()
        return found

    with Coordinator(options) as coordinator, ThreadPoolExecutor(2) as threads:
        running = [threads.submit(run, "a/0", first, second), threads.submit(run, "b/0", second, first)]
        assert [each.result(SECONDS) for each in running] == [[200, 200], [200, 200]]


class Listening(Coordinator):
    """Keeps what tasks say about sites."""

    def __init__(self, options: FetchOptions) -> None:
        super().__init__(options)
        self.heard: list[dict[str, Any]] = []

    def take(self, connection: str, message: dict[str, Any]) -> None:
        if "origin" in message:
            self.heard.append(message)
        super().take(connection, message)


def test_tasks_that_share_a_site_talk_of_it_only_when_one_comes_or_goes(sites: list[Site], tmp_path: Path) -> None:
    base = sites[0].serve({f"/{number}": "<p>page" for number in range(400)})
    options = FetchOptions(concurrency=16, per_host=8, allow_networks=LOOPBACK)
    tasks = [Task([f"{base}/{number}" for number in range(half, 400, 2)], 1000) for half in range(2)]

    with Listening(options) as coordinator, ThreadPoolExecutor(2) as threads:
        running = [threads.submit(task.run, coordinator, options, tmp_path) for task in tasks]
        assert [len(each.result(SECONDS)) for each in running] == [200, 200]

    assert len(coordinator.heard) <= 4 * options.per_host


class Said(Channel):
    """A channel whose driver has said all that it will say; `sent` is what the task said."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages, self.sent = list(messages), list[dict[str, Any]]()

    def send(self, message: Mapping[str, Any]) -> None:
        self.sent.append(dict(message))

    def received(self, seconds: float = 0.0) -> list[dict[str, Any]]:
        messages, self.messages = self.messages, []
        return messages


def test_a_place_that_was_waited_for_in_vain_goes_to_those_who_wait() -> None:
    """The only request for the site turns out to be forbidden once its rules have come, with a place and a recall."""
    host, rules = "http://shop.test", "User-agent: *\nDisallow: /"
    site = {"site": host, "agent": "Spindle", "text": rules, "refusal": None, "unreached": False, "delay": 0.0}
    channel = Said(site, {"grant": host, "places": 1, "starts": []}, {"recall": host, "places": 0})
    leases = Leases(channel, FetchOptions(per_host=1))
    assert leases.enter(host, f"{host}/a") is False
    assert leases.news() == {host}
    assert "forbids" in str(leases.enter(host, f"{host}/a"))
    assert channel.sent[-1] == {"kind": "giveBack", "origin": host, "places": 1, "wanted": 0}


@pytest.mark.parametrize("robots", [unreached("Spindle", "no answer"), Robots("Spindle", refusal="no answer")])
def test_whether_a_site_was_reached_is_told_as_the_driver_knows_it(robots: Robots) -> None:
    host = "http://shop.test"
    leases = Leases(Said({"site": host, **asdict(robots), "delay": 0.0}), FetchOptions())
    assert leases.enter(host, f"{host}/a") is False
    assert leases.news() == {host}
    refusal = leases.enter(host, f"{host}/a")
    assert (refusal, isinstance(refusal, Unreached)) == (robots.refusal, robots.unreached)


def test_a_place_that_comes_when_nobody_waits_any_more_goes_to_those_who_do() -> None:
    """A request waits for a place, and is given up before that comes: others wait for it as well."""
    host = "http://shop.test"
    site = {"site": host, "agent": "Spindle", "text": "", "refusal": None, "unreached": False, "delay": 0.0}
    channel = Said(site)
    leases = Leases(channel, FetchOptions(per_host=1))
    assert leases.enter(host, f"{host}/a") is False
    assert leases.news() == {host}
    assert leases.enter(host, f"{host}/a") is False
    leases.forget(host)
    channel.messages = [{"recall": host, "places": 0}, {"grant": host, "places": 1, "starts": []}]
    leases.wait(0.0, sleep=True)
    assert channel.sent[-1] == {"kind": "giveBack", "origin": host, "places": 1, "wanted": 0}


def test_no_start_is_asked_for_while_one_is_to_come() -> None:
    """Those that a task hoards are lost to the others when it ends: the site would lie idle for as long."""
    host = "http://shop.test"
    site = {"site": host, "agent": "Spindle", "text": "", "refusal": None, "unreached": False, "delay": 600.0}
    channel = Said(site, {"grant": host, "places": 1, "starts": [300.0]})
    leases = Leases(channel, FetchOptions(per_host=16))
    for url in (f"{host}/a", f"{host}/b"):
        assert leases.enter(host, url) is False
        leases.news()
    assert [message["kind"] for message in channel.sent] == ["open"]


@pytest.mark.parametrize(("start", "told"), [(-300.0, ["open", "late"]), (0.0, ["open"])])
def test_others_are_told_of_a_request_that_begins_long_after_its_start(start: float, told: list[str]) -> None:
    """Its start had come, but whoever fetches had no room for it."""
    host = "http://shop.test"
    site = {"site": host, "agent": "Spindle", "text": "", "refusal": None, "unreached": False, "delay": 600.0}
    channel = Said(site, {"grant": host, "places": 1, "starts": [start]})
    leases = Leases(channel, FetchOptions(per_host=1))
    assert leases.enter(host, f"{host}/a") is False
    assert leases.news() == {host}
    channel.messages = []
    assert leases.enter(host, f"{host}/a") is True
    assert [message["kind"] for message in channel.sent] == told


def test_a_start_that_is_put_off_is_waited_for() -> None:
    """Another task's request has begun late: this one's start, which had come, keeps its distance."""
    host = "http://shop.test"
    site = {"site": host, "agent": "Spindle", "text": "", "refusal": None, "unreached": False, "delay": 600.0}
    channel = Said(site, {"grant": host, "places": 1, "starts": [0.0]}, {"putOff": host, "seconds": 600.0})
    leases = Leases(channel, FetchOptions(per_host=1))
    assert leases.enter(host, f"{host}/a") is False
    assert leases.news() == {host}
    assert leases.enter(host, f"{host}/a") is False


def test_a_delay_that_is_longer_than_any_pause_is_waited_for_and_refuses_nothing() -> None:
    host = "http://shop.test"
    site = {"site": host, "agent": "Spindle", "text": "", "refusal": None, "unreached": False, "delay": 600.0}
    leases = Leases(Said(site, {"grant": host, "places": 1, "starts": [0.0]}), FetchOptions(max_retry_after=60))
    assert leases.enter(host, f"{host}/a") is False
    assert leases.news() == {host}
    assert leases.enter(host, f"{host}/a") is True
    assert leases.enter(host, f"{host}/b") is False


class TestDriverGone:
    """The run is over: a task that fetches ends, instead of asking sites that nobody wants the pages of."""

    def test_is_raised_where_nobody_listens(self) -> None:
        with Coordinator() as coordinator:
            endpoint = coordinator.endpoint
        with pytest.raises(DriverGone):
            Channel(endpoint, "a/0")

    def test_ends_a_task_that_waits_for_a_place(self, sites: list[Site]) -> None:
        base = sites[0].serve({f"/{number}": "<p>page" for number in range(100)})
        options = FetchOptions(per_host=1, delay=0.2, allow_networks=LOOPBACK)
        with Coordinator(options) as coordinator:
            channel = Channel(coordinator.endpoint, "a/0")
            fetcher = HttpFetcher(options, Leases(channel, options))
            pages = fetcher.fetch((f"{base}/{number}", None) for number in range(100))
            assert next(pages)[0].ok
        with fetcher, pytest.raises(DriverGone):
            list(pages)
        channel.close()
        assert sum(sites[0].requests.values()) < 10
