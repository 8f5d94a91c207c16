"""Which requests start, and what their hosts are asked for, in what order."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from pipelines.fetch import FetchOptions, HttpFetcher, Page
from pipelines.fetch.queue import RequestQueue
from pipelines.fetch.request import led_to
from pipelines.fetch.throttle import LocalHostThrottle, Refusal
from pipelines.page_cache.cache import CacheOptions, ExecutionPageCache
from tests.support.bad_server import BadServer
from tests.support.fetching import LOOPBACK


class Told:
    """Hosts that let in so many requests as they are `open` for; `said` is what they were told."""

    def __init__(self) -> None:
        self.open = Counter[str]()
        self.new = list[str]()
        self.said: list[tuple[str, str]] = []

    def acquire(self, origin: str, url: str) -> bool | Refusal:
        if self.open[origin]:
            self.open[origin] -= 1
            self.said.append(("enters", origin))
            return True
        return False

    def release(self, origin: str) -> None:
        self.said.append(("leaves", origin))

    def cancel(self, origin: str) -> None:
        self.said.append(("forgets", origin))

    def pause(self, origin: str, seconds: float) -> None: ...

    def poll(self) -> set[str]:
        news, self.new = set(self.new), []
        return news

    def wait(self, timeout: float, block: bool) -> float:
        return timeout


ONE, TWO, THREE = (f"http://{name}.test" for name in ("one", "two", "three"))
URLS = [(f"{host}/{number}", None) for number in range(2) for host in (ONE, TWO, THREE)]


def test_a_moment_that_a_host_grants_is_taken_by_a_request_that_starts_at_once() -> None:
    """Two places to fetch in, three hosts whose moment has come: the third is not entered before there is room."""
    hosts = Told()
    queue = RequestQueue(URLS, FetchOptions(concurrency=2), hosts)
    assert list(queue.starting(2)) == []
    hosts.open.update((ONE, TWO, THREE))
    hosts.new = [ONE, TWO, THREE]
    first, second = queue.starting(2)
    assert hosts.said == [("enters", first.origin), ("enters", second.origin)]
    [third] = queue.starting(1)
    assert {first.origin, second.origin, third.origin} == {ONE, TWO, THREE}


def test_what_nobody_waits_for_any_more_gives_back_all_that_it_held_or_waited_for() -> None:
    """One host lets in two requests, of which one has started; the others let nobody in."""
    hosts = Told()
    queue = RequestQueue(URLS, FetchOptions(concurrency=2), hosts)
    assert list(queue.starting(2)) == []
    hosts.open[ONE], hosts.new = 2, [ONE]
    running = list(queue.starting(1))
    hosts.said.clear()
    queue.abandon(running)
    assert sorted(hosts.said) == [("forgets", THREE), ("forgets", TWO), ("leaves", ONE), ("leaves", ONE)]


def page(url: str, status: int) -> Page:
    return Page(url, url, status, None, "text/html", "utf-8", b"<h1>home</h1>", datetime.now(UTC))


@pytest.mark.parametrize(("status", "asked"), [(200, 1), (503, 3)])
def test_what_several_redirects_lead_to_is_asked_for_once_where_the_first_brings_it(
    status: int, asked: int, tmp_path: Path
) -> None:
    options, urls = FetchOptions(), [f"{ONE}/old/{number}" for number in range(3)]
    with ExecutionPageCache(CacheOptions(str(tmp_path))) as cache:
        queue = RequestQueue(((url, url) for url in urls), options, LocalHostThrottle(options), cache)
        for request in list(queue.starting(16)):
            queue.redirected(request, f"{ONE}/home", 0.1)
        [first] = queue.starting(16)
        assert (first.address, list(queue.starting(16)), queue.empty) == (f"{ONE}/home", [], False)
        pages = [queue.done(first, led_to(page(f"{ONE}/home", status), first))]
        others = list(queue.starting(16))
        pages += [queue.done(each, led_to(page(f"{ONE}/home", status), each)) for each in others]
        pages += [found for found, _ in queue.take_finished()]
    assert 1 + len(others) == asked
    assert sorted(each.requested_url for each in pages) == urls
    assert {(each.url, each.status, each.redirects) for each in pages} == {(f"{ONE}/home", status, ())}


@pytest.mark.parametrize("direct_first", [True, False])
def test_what_a_link_and_a_redirect_lead_to_is_asked_for_once(direct_first: bool, tmp_path: Path) -> None:
    options, urls = FetchOptions(), [f"{ONE}/old", f"{ONE}/home"]
    with ExecutionPageCache(CacheOptions(str(tmp_path))) as cache:
        queue = RequestQueue(((url, url) for url in urls), options, LocalHostThrottle(options), cache)
        if direct_first:
            old, home = queue.starting(2)
            queue.redirected(old, f"{ONE}/home", 0.1)
        else:
            [old] = queue.starting(1)
            queue.redirected(old, f"{ONE}/home", 0.1)
            [home] = queue.starting(1)
        assert list(queue.starting(16)) == []
        pages = [queue.done(home, led_to(page(f"{ONE}/home", 200), home))]
        assert list(queue.starting(16)) == []
        pages += [found for found, _ in queue.take_finished()]
        assert queue.empty
    assert {each.requested_url: each.url for each in pages} == dict.fromkeys(urls, f"{ONE}/home")


@pytest.mark.parametrize(("failures", "asked"), [(0, 1), (1, 3), (3, 7), (100, 12)])
def test_where_the_first_of_several_redirects_fails_two_ask_in_its_place_and_so_on(
    failures: int, asked: int, bad_server: BadServer, tmp_path: Path
) -> None:
    """Twelve are led to a page that fails so often; each answer takes long enough for all to have been led there."""
    target = quote(f"/flaky?code=503&times={failures}&seconds=0.3", safe="")
    urls = [bad_server.url(f"/redirect?to={target}&number={number}") for number in range(12)]
    options = FetchOptions(allow_networks=LOOPBACK, retries=0)
    with ExecutionPageCache(CacheOptions(str(tmp_path))) as cache, HttpFetcher(options, cache=cache) as fetcher:
        pages = [page for page, _ in fetcher.fetch((url, None) for url in urls)]
    assert bad_server.requests == {"/redirect": 12, "/flaky": asked}
    assert sorted(page.requested_url for page in pages) == sorted(urls)
    assert [page.status for page in pages].count(503) == min(failures, 12)


def test_who_waits_for_what_others_were_led_to_is_held_like_any_other(tmp_path: Path) -> None:
    options, urls = FetchOptions(concurrency=1, per_host=1000), iter([f"{ONE}/old/{number}" for number in range(1000)])
    with ExecutionPageCache(CacheOptions(str(tmp_path))) as cache:
        queue = RequestQueue(((url, url) for url in urls), options, LocalHostThrottle(options), cache)
        [first] = queue.starting(1)
        queue.redirected(first, f"{ONE}/home", 0.1)
        assert list(queue.starting(1)) == [first]
        while others := list(queue.starting(1)):
            queue.redirected(others[0], f"{ONE}/home", 0.1)
        assert next(urls) == f"{ONE}/old/65"


def test_who_carries_cookies_asks_alone_and_what_it_is_shown_is_nobody_elses(tmp_path: Path) -> None:
    """The first and the third are led there without cookies, the second with some, the last too, but later."""
    options, urls = FetchOptions(per_host=4), [f"{ONE}/old/{number}" for number in range(4)]
    with ExecutionPageCache(CacheOptions(str(tmp_path))) as cache:
        queue = RequestQueue(((url, url) for url in urls), options, LocalHostThrottle(options), cache)
        *early, late = queue.starting(16)
        for request, cookies in zip(early, ((), [{"name": "a"}], ()), strict=True):
            queue.redirected(request, f"{ONE}/home", 0.1, cookies)
        first, second = queue.starting(16)
        assert [first.url, second.url] == urls[:2]
        shown = Page(f"{ONE}/home", f"{ONE}/home", 200, None, "text/html", "utf-8", b"yours", datetime.now(UTC))
        queue.done(second, led_to(shown, second))
        assert (list(queue.starting(16)), queue.take_finished()) == ([], [])
        queue.done(first, led_to(page(f"{ONE}/home", 200), first))
        assert [(found.body, url) for found, url in queue.take_finished()] == [(b"<h1>home</h1>", urls[2])]
        queue.redirected(late, f"{ONE}/home", 0.1, [{"name": "a"}])
        assert list(queue.starting(16)) == [late]


@pytest.mark.parametrize("forbidden", [False, True])
def test_only_a_site_that_answers_forbids_a_page(forbidden: bool) -> None:
    class Refusing(Told):
        def acquire(self, origin: str, url: str) -> bool | Refusal:
            return Refusal("no answer", forbidden)

    queue = RequestQueue([(f"{ONE}/0", None)], FetchOptions(), Refusing())
    assert list(queue.starting(16)) == []
    [(found, _)] = queue.take_finished()
    assert (found.error, found.forbidden) == ("no answer", forbidden)


def test_who_waits_for_what_turns_out_to_be_forbidden_is_told_so_too(tmp_path: Path) -> None:
    class Strict(Told):
        rules = False

        def acquire(self, origin: str, url: str) -> bool | Refusal:
            return Refusal("forbidden") if self.rules and url.endswith("/home") else super().acquire(origin, url)

    hosts, urls = Strict(), [f"{ONE}/old/{number}" for number in range(3)]
    hosts.open[ONE] = 3
    with ExecutionPageCache(CacheOptions(str(tmp_path))) as cache:
        queue = RequestQueue(((url, url) for url in urls), FetchOptions(), hosts, cache)
        for request in list(queue.starting(16)):
            queue.redirected(request, f"{TWO}/home", 0.1)
        assert (list(queue.starting(16)), queue.take_finished()) == ([], [])
        hosts.rules, hosts.new = True, [TWO]
        assert list(queue.starting(16)) == []
        assert [found.error for found, _ in queue.take_finished()] == [f"redirects to {TWO}/home: forbidden"] * 3
    assert queue.empty
