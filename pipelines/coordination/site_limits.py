"""Sites of a run: robots.txt is fetched before the first request, then the limits of the host hold for all tasks."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pipelines.coordination.host_limits import HostLimits, Task
from pipelines.coordination.messages import SERVICE, Pause, SiteRules
from pipelines.errors import summarize_error
from pipelines.fetch import CrawlOptions, FetchOptions, HttpFetcher
from pipelines.fetch.robots import MAX_ROBOTS, Robots, get_robots_url, make_unreached, read_robots

_log = logging.getLogger(__name__)
_FETCHERS = 16  # robots.txt files fetched in parallel
_SECONDS = 20.0


@dataclass(eq=False)
class _Site:
    """`waiting` are slots wanted by task while robots.txt is being fetched, `tasks` those that know the site."""

    robots: Robots | None = None
    fetch: asyncio.Future[Robots] | None = None
    waiting: dict[Task, int] = field(default_factory=dict[Task, int])
    tasks: set[Task] = field(default_factory=set[Task])


class SiteLimits:
    """Grants slots at the sites that `options` and robots.txt allow. All calls come from one asyncio loop.

    The first request of a task at a site is answered with the site's rules.
    """

    def __init__(self, options: CrawlOptions) -> None:
        self._options = options
        self._sites: dict[str, _Site] = {}
        self._origins: dict[Task, set[str]] = {}
        self._limits = HostLimits(options.per_host)
        self._fetchers = ThreadPoolExecutor(_FETCHERS, "robots")

    def shutdown(self) -> None:
        """End without further fetches; any thread may call it."""
        self._fetchers.shutdown(wait=False, cancel_futures=True)

    def cancel(self) -> None:
        """Leave the sites whose robots.txt is being fetched."""
        for site in self._sites.values():
            if site.fetch:
                site.fetch.cancel()

    def acquire(self, task: Task, origin: str, slots: int) -> None:
        """Request slots for a task, which gets them as messages."""
        site = self._sites.get(origin)
        if site is None:
            site = self._sites[origin] = _Site()
            if self._options.robots and not origin.startswith(SERVICE):
                loop = asyncio.get_running_loop()
                fetch = loop.run_in_executor(self._fetchers, _fetch_robots, origin, self._options)
                site.fetch = fetch
                fetch.add_done_callback(lambda done: self._open(origin, site, done))
            else:
                site.robots = Robots("")
                self._limits.open(origin, self._options.delay)
        self._origins.setdefault(task, set()).add(origin)
        if site.robots is None:
            site.waiting[task] = slots
        else:
            self._admit(task, origin, site, site.robots, slots)

    def release(self, task: Task, origin: str, slots: int, turn: bool) -> None:
        """Take back slots of a task."""
        self._limits.release(task, origin, slots, turn)

    def pause(self, origin: str, seconds: float) -> None:
        """Stop the requests of all tasks to a site."""
        self._limits.pause(origin, seconds, self._sites[origin].tasks)

    def remove(self, task: Task) -> None:
        """Free all that an ended task held."""
        origins = self._origins.pop(task, set())
        for origin in origins:
            self._sites[origin].tasks.discard(task)
            self._sites[origin].waiting.pop(task, None)
        self._limits.remove(task, origins)

    def _open(self, origin: str, site: _Site, fetched: asyncio.Future[Robots]) -> None:
        if fetched.cancelled():
            return
        site.robots = robots = fetched.result()
        self._limits.open(origin, self._get_delay(robots))
        waiting, site.waiting = site.waiting, {}
        for task, slots in waiting.items():
            self._admit(task, origin, site, robots, slots)

    def _admit(self, task: Task, origin: str, site: _Site, robots: Robots, slots: int) -> None:
        if task not in site.tasks:
            site.tasks.add(task)
            task.send(SiteRules(origin, robots, self._get_delay(robots)))
            if (seconds := self._limits.get_pause(origin)) > 0:
                task.send(Pause(origin, seconds))
        if robots.refusal is None:
            self._limits.acquire(task, origin, slots)

    def _get_delay(self, robots: Robots) -> float:
        return max(robots.crawl_delay, self._options.delay)


def _fetch_robots(origin: str, options: FetchOptions) -> Robots:
    """Fetch the rules of a site; they forbid everything when there is no answer."""
    seconds = min(_SECONDS, options.total_timeout)
    options = replace(
        options, max_body=MAX_ROBOTS, max_redirects=5, total_timeout=seconds, first_byte_timeout=seconds, concurrency=1
    )
    try:
        with HttpFetcher(options) as fetcher:
            ((page, _),) = fetcher.fetch([(get_robots_url(origin), None)])
        return read_robots(page, options.user_agent)
    except Exception as error:  # tasks wait for an answer after any error
        _log.exception("%s could not be read", get_robots_url(origin))
        return make_unreached("", f"{type(error).__name__}: {summarize_error(error)}")
