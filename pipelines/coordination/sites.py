"""The sites that a run asks, as the driver knows them: their rules, fetched once, and the leases on their places."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import Any

from pipelines.coordination.budgets import Budgets, Message
from pipelines.errors import first_line
from pipelines.fetch import FetchOptions, HttpFetcher
from pipelines.fetch.robots import MAX_ROBOTS, Robots, read_robots, robots_url, unreached

_log = logging.getLogger(__name__)
_FETCHERS = 16  # robots.txt files that are fetched at a time
_LONGEST = 20.0  # seconds that one may take


@dataclass
class _Site:
    robots: Robots | None = None
    waiting: dict[str, int] = field(default_factory=dict[str, int])


class Sites:
    """Answers what tasks ask about sites; `send` takes the messages for them, from any thread."""

    def __init__(self, options: FetchOptions, send: Any) -> None:
        self._options = options
        self._send = send
        self._lock = Lock()
        self._sites: dict[str, _Site] = {}
        self._budgets = Budgets(options.per_host)
        self._fetchers = ThreadPoolExecutor(_FETCHERS, "robots")

    def close(self) -> None:
        self._fetchers.shutdown(wait=False, cancel_futures=True)

    def take(self, task: str, message: dict[str, Any]) -> None:
        """Takes what a task says about a site."""
        origin = message["origin"]
        with self._lock:  # sent under it as well: what a task is told second must not come first
            self._send(self._answers(task, origin, message))

    def gone(self, task: str) -> None:
        with self._lock:
            for site in self._sites.values():
                site.waiting.pop(task, None)
            self._send(self._budgets.gone(task))

    def _answers(self, task: str, origin: str, message: dict[str, Any]) -> list[Message]:
        match message["kind"]:
            case "open":
                return self._opened(task, origin, message["places"])
            case "want":
                return self._budgets.want(task, origin, message["places"])
            case "giveBack":
                return self._budgets.give_back(task, origin, message["places"], message["wanted"])
            case "late":
                return self._budgets.late(task, origin)
            case _:
                return self._budgets.back_off(origin, message["seconds"])

    def _opened(self, task: str, origin: str, places: int) -> list[Message]:
        site = self._sites.get(origin)
        if site is None:
            site = self._sites[origin] = _Site()
            if self._options.robots:
                self._fetchers.submit(self._read, origin)
            else:
                site.robots = Robots("")
                self._budgets.open(origin, self._options.delay)
        if site.robots is None:
            site.waiting[task] = places
            return []
        return self._welcome(task, origin, site.robots, places)

    def _welcome(self, task: str, origin: str, robots: Robots, places: int) -> list[Message]:
        delay = max(robots.crawl_delay, self._options.delay)
        messages = [(task, {"site": origin, **asdict(robots), "delay": delay})]
        if (seconds := self._budgets.paused(origin)) > 0:
            messages.append((task, {"pause": origin, "seconds": seconds}))
        return messages + (self._budgets.want(task, origin, places) if robots.refusal is None else [])

    def _read(self, origin: str) -> None:
        try:
            robots = _robots(origin, self._options)
            delay = max(robots.crawl_delay, self._options.delay)
        except Exception as error:  # whatever it is: tasks wait for an answer
            _log.exception("%s could not be read", robots_url(origin))
            robots = unreached("", f"{type(error).__name__}: {first_line(error)}")
            delay = self._options.delay
        with self._lock:
            site = self._sites[origin]
            site.robots = robots
            self._budgets.open(origin, delay)
            tasks, site.waiting = site.waiting, {}
            for task, places in tasks.items():
                self._send(self._welcome(task, origin, robots, places))


def _robots(origin: str, options: FetchOptions) -> Robots:
    longest = min(_LONGEST, options.total_timeout)
    briefly = replace(
        options, max_body=MAX_ROBOTS, max_redirects=5, total_timeout=longest, first_byte_timeout=longest, concurrency=1
    )
    with HttpFetcher(briefly) as fetcher:
        ((page, _),) = fetcher.fetch([(robots_url(origin), None)])
    return read_robots(page, options.user_agent)
