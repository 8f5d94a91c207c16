"""Which requests start, and what their hosts are asked for, in what order."""

from __future__ import annotations

from collections import Counter

from pipelines.fetch import FetchOptions
from pipelines.fetch.queue import RequestQueue


class Told:
    """Hosts that let in so many requests as they are `open` for; `said` is what they were told."""

    def __init__(self) -> None:
        self.open = Counter[str]()
        self.new = list[str]()
        self.said: list[tuple[str, str]] = []

    def enter(self, origin: str, url: str) -> bool:
        if self.open[origin]:
            self.open[origin] -= 1
            self.said.append(("enters", origin))
            return True
        return False

    def leave(self, origin: str, waiting: bool) -> None:
        self.said.append(("leaves", origin))

    def forget(self, origin: str) -> None:
        self.said.append(("forgets", origin))

    def back_off(self, origin: str, seconds: float) -> None: ...

    def news(self) -> set[str]:
        news, self.new = set(self.new), []
        return news

    def wait(self, longest: float, sleep: bool) -> float:
        return longest


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
