"""The host throttle of tasks that share hosts: fetchers, one coordinator and real connections, without Spark."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.coordination import client
from pipelines.coordination.client import Connection, DriverGone, SharedHostThrottle, load_environment
from pipelines.coordination.messages import (
    Acquire,
    DriverMessage,
    Grant,
    Pause,
    Recall,
    Release,
    SiteRules,
    TaskMessage,
)
from pipelines.coordination.server import Coordinator
from pipelines.fetch import CrawlOptions, HttpFetcher
from pipelines.fetch.robots import Robots, make_unreached
from pipelines.fetch.throttle import Refusal
from pipelines.page_cache.cache import ExecutionPageCache
from pipelines.page_cache.options import CacheOptions
from tests.support.clock import Clock
from tests.support.service import wait_until
from tests.support.site import Site, serve_site
from tests.support.turns import record_turns

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

    def run(self, coordinator: Coordinator, options: CrawlOptions, folder: Path) -> list[str]:
        connection = Connection(coordinator.endpoint, "pass/0")
        found: list[str] = []
        try:
            with (
                ExecutionPageCache(CacheOptions(str(folder))) as cache,
                HttpFetcher(options, SharedHostThrottle(connection, options), cache) as fetcher,
            ):
                for page, url in fetcher.fetch((url, url) for url in self.urls):
                    assert page.ok == (not url.endswith("/forbidden")), page
                    found.append(url)
                    if len(found) == self.pages:
                        return found
            connection.finish()
        finally:
            connection.close()
        return found


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_all_pages_are_fetched_within_the_limits(seed: int, sites: list[Site], tmp_path: Path) -> None:
    """Tasks, hosts, places, delays, kept and forbidden pages, tasks that break off: as the seed has it."""
    choose = random.Random(seed)
    paths = {f"/{number}": "<p>page" for number in range(60)}
    robots = {"/robots.txt": "User-agent: *\nDisallow: /forbidden"}
    bases = [site.serve({**paths, **robots}) for site in sites]
    options = CrawlOptions(
        concurrency=choose.choice((1, 2, 16)),
        per_host=choose.choice((1, 1, 2, 8)),
        delay=choose.choice((0, 0, 0.005)),
        allow_networks=LOOPBACK,
    )
    urls = [choose.choice(bases) + choose.choice((path, path, path, "/forbidden")) for path in paths]
    with ExecutionPageCache(CacheOptions(str(tmp_path))) as cache, HttpFetcher(options, cache=cache) as fetcher:
        kept = [url for url in urls if choose.random() < choose.choice((0.1, 0.9)) and not url.endswith("/forbidden")]
        list(fetcher.fetch((url, url) for url in kept))
    for site in sites:
        site.most_running, site.seconds = 0, 0.003
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


def test_two_tasks_that_hold_the_slots_of_each_other_do_not_block(sites: list[Site], tmp_path: Path) -> None:
    first, second = (site.serve({f"/{number}": "<p>page" for number in range(4)}) for site in sites[:2])
    options = CrawlOptions(concurrency=1, per_host=1, allow_networks=LOOPBACK)
    meet = threading.Barrier(2, timeout=SECONDS)
    fetched, end = list[str](), time.monotonic() + SECONDS

    def run(name: str, mine: str, other: str) -> list[int | None]:
        def addresses() -> Iterator[tuple[str, None]]:
            yield f"{mine}/0", None
            meet.wait()
            yield f"{other}/1", None

        connection = Connection(coordinator.endpoint, name)
        throttle = SharedHostThrottle(connection, options)
        with HttpFetcher(options, throttle) as fetcher:
            found = [page.status for page, _ in fetcher.fetch(addresses())]
            fetched.append(name)
            while len(fetched) < 2 and time.monotonic() < end:  # no slots return by the end of a task
                throttle.poll()
                throttle.wait(0.05, block=True)
        connection.close()
        return found

    with Coordinator(options) as coordinator, ThreadPoolExecutor(2) as threads:
        running = [threads.submit(run, "a/0", first, second), threads.submit(run, "b/0", second, first)]
        assert [each.result(SECONDS) for each in running] == [[200, 200], [200, 200]]


@pytest.mark.long
def test_tasks_that_share_a_site_send_few_messages(
    sites: list[Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = sites[0].serve({f"/{number}": "<p>page" for number in range(400)})
    options = CrawlOptions(concurrency=16, per_host=8, allow_networks=LOOPBACK)
    tasks = [Task([f"{base}/{number}" for number in range(half, 400, 2)], 1000) for half in range(2)]
    sent = list[TaskMessage]()
    send = Connection.send

    def record(connection: Connection, message: TaskMessage) -> None:
        sent.append(message)
        send(connection, message)

    monkeypatch.setattr(Connection, "send", record)
    with Coordinator(options) as coordinator, ThreadPoolExecutor(2) as threads:
        running = [threads.submit(task.run, coordinator, options, tmp_path) for task in tasks]
        assert [len(each.result(SECONDS)) for each in running] == [200, 200]
    assert len(sent) <= 8 * options.per_host


class FakeConnection(Connection):
    """A connection with prepared messages of the driver; `sent` are those of the task."""

    def __init__(self, *messages: DriverMessage) -> None:
        self.messages, self.sent = list(messages), list[TaskMessage]()

    def send(self, message: TaskMessage) -> None:
        self.sent.append(message)

    def receive(self, timeout: float = 0.0) -> list[DriverMessage]:
        messages, self.messages = self.messages, []
        return messages


SHOP = "http://shop.test"


def rules(text: str = "", delay: float = 0.0) -> SiteRules:
    return SiteRules(SHOP, Robots("Spindle", text), delay)


def throttle(connection: Connection, **options: float) -> SharedHostThrottle:
    """A throttle whose first request has been refused for want of a slot, and that then read all messages."""
    made = SharedHostThrottle(connection, CrawlOptions(**options))  # pyright: ignore[reportArgumentType]
    assert made.acquire(SHOP, f"{SHOP}/a") is False
    assert made.poll() == {SHOP}
    return made


def poll_until(throttle: SharedHostThrottle, condition: Callable[[], bool]) -> None:
    """Use the throttle like an idle fetcher."""

    def is_met() -> bool:
        throttle.poll()
        throttle.wait(0.01, block=True)
        return condition()

    wait_until(is_met, SECONDS)


def test_a_slot_for_a_forbidden_url_returns_to_the_driver() -> None:
    connection = FakeConnection(rules("User-agent: *\nDisallow: /"), Grant(SHOP, 1, keep=1))
    shared = throttle(connection, per_host=1)
    refusal = shared.acquire(SHOP, f"{SHOP}/a")
    assert isinstance(refusal, Refusal)
    assert refusal.forbidden
    poll_until(shared, lambda: connection.sent[-1] == Release(SHOP, 1))


def test_a_slot_for_a_cancelled_request_returns_to_the_driver() -> None:
    connection = FakeConnection(rules())
    shared = throttle(connection, per_host=1)
    shared.cancel(SHOP)
    connection.messages = [Grant(SHOP, 1, keep=1)]
    poll_until(shared, lambda: connection.sent[-1] == Release(SHOP, 1))


def test_recalled_slots_return_as_requests_end() -> None:
    connection = FakeConnection(rules(), Grant(SHOP, 4, keep=4))
    shared = throttle(connection, per_host=4)
    for _ in range(3):
        assert shared.acquire(SHOP, f"{SHOP}/a") is True
    connection.messages = [Recall(SHOP, 2)]
    shared.wait(0.0, block=True)
    assert connection.sent[-1] == Release(SHOP, 1)
    assert shared.acquire(SHOP, f"{SHOP}/b") is False
    shared.release(SHOP)
    assert connection.sent[-1] == Release(SHOP, 1)
    shared.release(SHOP)
    assert connection.sent[-1] != Release(SHOP, 2)
    assert shared.acquire(SHOP, f"{SHOP}/b") is True


@pytest.mark.parametrize("robots", [make_unreached("Spindle", "no answer"), Robots("Spindle", refusal="no answer")])
def test_an_unreachable_site_forbids_nothing(robots: Robots) -> None:
    shared = throttle(FakeConnection(SiteRules(SHOP, robots, 0.0)))
    refusal = shared.acquire(SHOP, f"{SHOP}/a")
    assert refusal == Refusal(robots.refusal or "", forbidden=not robots.unreached)


class TestDelay:
    def test_a_turn_returns_with_the_start_of_its_last_request(self) -> None:
        connection = FakeConnection(rules(delay=600.0), Grant(SHOP, 1))
        shared = throttle(connection, per_host=16)
        assert shared.acquire(SHOP, f"{SHOP}/a") is True
        assert connection.sent == [Acquire(SHOP, 16), Release(SHOP, 0, turn=True)]
        shared.release(SHOP)
        assert connection.sent[-1] == Release(SHOP, 1)

    def test_no_second_turn_is_requested_while_one_is_to_come(self) -> None:
        connection = FakeConnection(rules(delay=600.0), Grant(SHOP, 1, wait=300.0))
        shared = throttle(connection, per_host=16)
        assert shared.acquire(SHOP, f"{SHOP}/b") is False
        assert connection.sent == [Acquire(SHOP, 16)]

    def test_requests_of_one_turn_keep_the_delay(self) -> None:
        connection = FakeConnection(rules(delay=600.0), Grant(SHOP, 2))
        shared = throttle(connection, per_host=16)
        assert shared.acquire(SHOP, f"{SHOP}/a") is True
        assert shared.acquire(SHOP, f"{SHOP}/b") is False

    def test_longer_than_any_pause_is_no_refusal(self) -> None:
        connection = FakeConnection(rules(delay=600.0), Grant(SHOP, 1))
        shared = throttle(connection, max_retry_after=60)
        assert shared.acquire(SHOP, f"{SHOP}/a") is True
        assert shared.acquire(SHOP, f"{SHOP}/b") is False

    def test_a_turn_waits_for_its_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client, "time", clock := Clock())
        shared = throttle(FakeConnection(rules(delay=600.0), Grant(SHOP, 1, wait=300.0)))
        clock.now += 299
        assert (shared.acquire(SHOP, f"{SHOP}/a"), [*shared.poll()]) == (False, [])
        clock.now += 1
        assert ([*shared.poll()], shared.acquire(SHOP, f"{SHOP}/a")) == ([SHOP], True)

    def test_requests_of_all_tasks_keep_it(self, sites: list[Site], monkeypatch: pytest.MonkeyPatch) -> None:
        turns = record_turns(monkeypatch)
        base = sites[0].serve({f"/{number}": "<p>page" for number in range(12)})
        options = CrawlOptions(delay=0.1, allow_networks=LOOPBACK, robots=False)

        def run(part: int) -> None:
            connection = Connection(coordinator.endpoint, f"pass/{part}")
            shared = SharedHostThrottle(connection, options)
            for _ in range(4):
                poll_until(shared, lambda: shared.acquire(base, f"{base}/") is True)
                shared.release(base)
            connection.finish()

        with Coordinator(options) as coordinator, ThreadPoolExecutor(3) as threads:
            list(threads.map(run, range(3)))
        assert (turns.delays, turns.started) == ({base: 0.1}, {base: 12})


def test_a_long_pause_refuses_requests() -> None:
    shared = throttle(FakeConnection(rules(), Pause(SHOP, 100.0)), max_retry_after=60)
    assert isinstance(shared.acquire(SHOP, f"{SHOP}/a"), Refusal)


class TestDriverGone:
    """The run is over: a task that fetches ends, instead of asking sites that nobody wants the pages of."""

    def test_is_raised_where_nobody_listens(self) -> None:
        with Coordinator() as coordinator:
            endpoint = coordinator.endpoint
        with pytest.raises(DriverGone):
            Connection(endpoint, "a/0")

    def test_ends_a_task_that_waits_for_a_place(self, sites: list[Site]) -> None:
        base = sites[0].serve({f"/{number}": "<p>page" for number in range(100)})
        options = CrawlOptions(per_host=1, delay=0.2, allow_networks=LOOPBACK)
        with Coordinator(options) as coordinator:
            connection = Connection(coordinator.endpoint, "a/0")
            fetcher = HttpFetcher(options, SharedHostThrottle(connection, options))
            pages = fetcher.fetch((f"{base}/{number}", None) for number in range(100))
            assert next(pages)[0].ok
        with fetcher, pytest.raises(DriverGone):
            list(pages)
        connection.close()
        assert sum(sites[0].requests.values()) < 10


def test_tasks_get_the_environment_of_their_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "of another run")
    for environment in ({}, {"SHOP_KEY": "of this run", "REGION": "eu"}):
        with Coordinator(environment=environment) as coordinator:
            monkeypatch.setenv("REGION", "")
            connection = Connection(coordinator.endpoint, "pass/0")
            load_environment(connection, coordinator.endpoint)
            assert {name: os.environ[name] for name in environment} == environment
            assert os.environ["SHOP_KEY"] == ("of this run" if environment else "of another run")
            connection.finish()
