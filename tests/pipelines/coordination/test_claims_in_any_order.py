"""Queues, caches and claims of tasks side by side, where a dice says when requests end and messages arrive."""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipelines.coordination import claims
from pipelines.coordination.channel import Endpoint
from pipelines.coordination.claims import Claims
from pipelines.coordination.hosts import OwnHosts
from pipelines.coordination.owners import Owners
from pipelines.fetch import FetchOptions, Page
from pipelines.fetch.queue import RequestQueue
from pipelines.fetch.request import Request
from pipelines.page_cache.cache import CacheOptions, PageCache

NOWHERE = Endpoint("", 0, "", "")
STEPS = 20_000


class Run:
    """A site, the driver's registry, and the tasks that each have a part of the links."""

    def __init__(self, dice: random.Random, folder: Path) -> None:
        self.dice, self.folder = dice, folder
        self.owners, self.boxes = Owners(), dict[str, deque[dict[str, Any]]]()
        pages = [f"http://shop.test/{number}" for number in range(dice.choice((4, 8, 20)))]
        circles = dice.random() < 0.2
        self.site = {page: self._kind(pages, place, circles) for place, page in enumerate(pages)}
        aliases = [f"http://shop.test/to/{number}" for number in range(dice.choice((0, 10, 30)))]
        self.site |= {alias: dice.choice(pages[:3]) for alias in aliases}
        self.brought = Counter[str]()
        links = [*self.site]
        dice.shuffle(links)
        tasks = dice.choice((2, 3))
        self.parts = [links[each::tasks] for each in range(tasks)]
        self.tasks: list[Task] = []

    def goes_on(self) -> None:
        """One of the tasks does, for as long as there are any."""
        if self.tasks:
            self.dice.choice(self.tasks).goes_on()

    def _kind(self, pages: list[str], place: int, circles: bool) -> str:
        """Where a page redirects, or whether it fails always, now and then, or never."""
        if place and self.dice.random() < 0.6:
            return pages[self.dice.randrange(len(pages) if circles else place)]
        return self.dice.choice(("fails", "may fail", "good", "good"))

    def say(self, task: str, message: dict[str, Any]) -> None:
        self.post(self.owners.take(task, json.loads(json.dumps(message))))

    def post(self, messages: list[tuple[str, dict[str, Any]]]) -> None:
        for task, message in messages:
            self.boxes[task].append(message)


class Line:
    """A task's `Channel`, on which what has been sent may take its time."""

    def __init__(self, run: Run, task: str) -> None:
        self.run, self.task = run, task
        self.box = run.boxes[task] = deque()

    def send(self, message: dict[str, Any]) -> None:
        self.run.say(self.task, message)

    def received(self, seconds: float = 0) -> list[dict[str, Any]]:
        come = 1 if seconds else self.run.dice.randrange(len(self.box) + 1)
        return [self.box.popleft() for _ in range(come)]

    def close(self) -> None:
        self.run.post(self.run.owners.gone(self.task))


class Task:
    """One that fetches `links`, with few requests in flight."""

    def __init__(self, run: Run, name: str, links: list[str]) -> None:
        self.run, self.left = run, len(links)
        self.options = FetchOptions(concurrency=run.dice.choice((1, 2, 4)), retries=0, per_host=4, max_redirects=6)
        self.claims = Claims(NOWHERE, name)
        self.cache = PageCache(CacheOptions(str(run.folder)))
        hosts = OwnHosts(self.options)
        self.queue = RequestQueue(((link, link) for link in links), self.options, hosts, self.cache, self.claims)
        self.running: list[Request[str]] = []

    def goes_on(self) -> None:
        self.running += self.queue.starting(self.options.concurrency - len(self.running))
        self.left -= len(self.queue.take_finished())
        if self.running and self.run.dice.random() < 0.4:
            self._ends(self.running.pop(self.run.dice.randrange(len(self.running))))
        if not self.running and self.queue.empty:
            assert self.left == 0
            self.cache.close()
            self.claims.__exit__(None, None, None)
            self.run.tasks.remove(self)

    def _ends(self, request: Request[str]) -> None:
        kind = self.run.site[request.address]
        if kind.startswith("http") and len(request.passed) < self.options.max_redirects:
            self.queue.redirected(request, kind, 0.0)
            return
        good = kind == "good" or (kind == "may fail" and self.run.dice.random() < 0.5)
        self.run.brought[request.address] += good
        status, error = (200, None) if good else (302, "too many") if kind.startswith("http") else (502, "bad")
        about = (status, error, "text/html", None, b"x", datetime.now(UTC))
        self.queue.done(request, Page(request.url, request.address, *about, request.passed[:-1]))
        self.left -= 1


@pytest.mark.parametrize("seed", range(200))
def test_every_link_has_its_page_and_what_is_kept_was_brought_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(random.Random(seed), tmp_path)
    monkeypatch.setattr(claims, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(claims, "Channel", lambda _, task: Line(run, task))
    run.tasks = [Task(run, str(each), part) for each, part in enumerate(run.parts)]
    for _ in range(STEPS):
        run.goes_on()
    assert not run.tasks, "somebody waits for ever"
    assert {page: times for page, times in run.brought.items() if times > 1 and run.site[page] == "good"} == {}
