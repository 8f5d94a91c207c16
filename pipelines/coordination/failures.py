"""The pages of a run that could not be fetched: the first pages, and the first addresses of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipelines.coordination.messages import FailedPage, FetchTally
from pipelines.fetch.failures import FailureReason

MAX_FAILED_PAGES = 10_000
MAX_ADDRESSES = 3  # of one kind
MIN_BLOCKED_PAGES = 3
MIN_BLOCKED_SHARE = 0.2  # of a host's pages since the first that was blocked


class FailureList:
    """The first `MAX_FAILED_PAGES` failed pages, and the first addresses of every further kind; for one thread."""

    def __init__(self) -> None:
        self._pages: list[tuple[str, FailedPage]] = []
        self._addresses: dict[tuple[int | None, str | None], list[str]] = {}

    def add(self, task: str, pages: Iterable[FailedPage]) -> None:
        """Add pages that a task has reported."""
        for page in pages:
            if len(self._pages) < MAX_FAILED_PAGES:
                self._pages.append((task, page))
            addresses = self._addresses.setdefault((page.status, page.reason), [])
            if len(addresses) < MAX_ADDRESSES and page.url not in addresses:
                addresses.append(page.url)

    def remove(self, task: str) -> None:
        """Remove the pages of a task that runs again."""
        self._pages = [each for each in self._pages if each[0] != task]

    def list_pages(self) -> list[FailedPage]:
        """Return the pages in the order of their arrival."""
        return [page for _, page in self._pages]

    def list_unfetched(self) -> list[FailedPage]:
        """Return the pages without those that were fetched, and that nothing has read."""
        return [page for _, page in self._pages if page.reason != FailureReason.UNREAD]

    def get_addresses(self, answer: FetchTally) -> Sequence[str]:
        """Return the first addresses with this status and reason."""
        return self._addresses.get((answer.status, answer.reason), ())


def sum_answers(reports: Iterable[Iterable[FetchTally]]) -> list[FetchTally]:
    """Return the sums of the tasks' answers by status and reason, the most frequent first."""
    sums: dict[tuple[int | None, str | None], FetchTally] = {}
    for answers in reports:
        for each in answers:
            total = sums.setdefault((each.status, each.reason), FetchTally(each.status, each.reason))
            total.pages += each.pages
            total.retries += each.retries
            total.bytes += each.bytes
            total.seconds += each.seconds
            total.cached += each.cached
            total.optional += each.optional
    return sorted(sums.values(), key=lambda each: (-each.pages, each.status or 0, each.reason or ""))


def sum_hosts(reports: Iterable[dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Return the sums of the tasks' numbers of pages and of blocked ones by host."""
    sums: dict[str, tuple[int, int]] = {}
    for hosts in reports:
        for host, (pages, blocked) in hosts.items():
            before = sums.get(host, (0, 0))
            sums[host] = (before[0] + pages, before[1] + blocked)
    return sums


def list_blocking_hosts(hosts: dict[str, tuple[int, int]]) -> list[tuple[str, int, int]]:
    """Return the hosts that block a large share of their pages, with the numbers of pages and of blocked ones."""
    return [
        (host, pages, blocked)
        for host, (pages, blocked) in hosts.items()
        if blocked >= MIN_BLOCKED_PAGES and blocked >= MIN_BLOCKED_SHARE * pages
    ]
