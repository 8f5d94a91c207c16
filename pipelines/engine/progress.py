"""Progress of a task: counts of rows, pages and errors by step, and the first rows of each step for previews."""

from __future__ import annotations

import sys
import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

import xxhash

from pipelines.coordination.client import Connection
from pipelines.coordination.failures import MAX_ADDRESSES
from pipelines.coordination.messages import Counts, FailedPage, FetchTally, PlacedRow, Report, SeenPage
from pipelines.extract.rows import Fetched, Ordinal, PageTally, Row
from pipelines.fetch import Page
from pipelines.fetch.failures import FailureReason, find_reason
from pipelines.fetch.urls import get_host, mask_password
from pipelines.incremental.options import Tracking
from pipelines.language.json_values import PREVIEW_LENGTH, to_json
from pipelines.language.names import truncate

if TYPE_CHECKING:
    from pipelines.incremental.tracker import PageTracker

_REPORT_SECONDS = 0.5
_MAX_FAILURES = 10_000  # that one task reports in full
_MAX_URL, _MAX_MESSAGE = 2_000, 500  # characters in a failure
_MAX_HOSTS = 1_000
_LAST_ORDINAL: Ordinal = (sys.maxsize,)
_get_ordinal = itemgetter(0)


class Preview:
    """The first `size` rows of a step in document order, as JSON values; rows from ordinal `end` on do not belong.

    Rows that `hides` returns true for are left out.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: list[PlacedRow] = []
        self._changed = False
        self.end: Ordinal = _LAST_ORDINAL if size else ()
        self.hides: Callable[[Row], bool] | None = None

    def add(self, row: Row) -> None:
        """Insert a row whose ordinal is below `end`."""
        if self.hides and self.hides(row):
            return
        cells = {**row.get_engine_values(), **row.values}
        values = {name: to_json(value, PREVIEW_LENGTH) for name, value in cells.items()}
        insort(self._rows, (row.ordinal, values), key=_get_ordinal)
        del self._rows[self._size :]
        if len(self._rows) == self._size:
            self.end = self._rows[-1][0]
        self._changed = True

    def take_changed(self) -> list[PlacedRow]:
        """Return the rows if they have changed since the last call."""
        changed, self._changed = self._changed, False
        return self._rows if changed else []


@dataclass(slots=True, eq=False)
class StepProgress:
    """Counts and first rows of one step in one task; `tally` counts the matches of its selectors."""

    key: str
    preview: Preview
    counts: Counts = field(default_factory=Counts)
    tally: PageTally = field(default_factory=lambda: PageTally(0))

    def count(self) -> Counts:
        """Return the counts with those of the selectors."""
        if self.tally.pages:
            self.counts.searched = self.tally.pages
            self.counts.empty, self.counts.unfit = self.tally.count_empty(), self.tally.count_unfit()
        return self.counts

    def count_selectors(self, selectors: int) -> PageTally:
        """Return the tally of so many selectors, which the passes of a trial share."""
        if selectors and not self.tally.count_empty():
            self.tally = PageTally(selectors)
        return self.tally

    def add_row(self, row: Row) -> None:
        self.counts.rows += 1
        if row.ordinal < self.preview.end:
            self.preview.add(row)


class ProgressReporter:
    """Sends the counts of a task and previews of `preview_rows` rows over its connection."""

    def __init__(self, connection: Connection | None, preview_rows: int = 0) -> None:
        self._connection = connection
        self._preview_rows = preview_rows
        self._steps: dict[str, StepProgress] = {}
        self._fetched: list[int] = []
        self._failed: list[int] = []
        self._forbidden: list[int] = []
        self._answers: dict[tuple[int | None, str | None], FetchTally] = {}
        self.failures: list[FailedPage] = []
        self._failures_left = _MAX_FAILURES
        self._hosts: dict[str, tuple[int, int]] = {}
        self.seen: list[SeenPage] = []
        self.trackers: list[PageTracker] = []
        self._reported_at = self._switched_at = time.monotonic()
        self._current: StepProgress | None = None

    def switch(self, step: StepProgress | None) -> StepProgress | None:
        """Attribute the time from now on to a step, and return the one that it was attributed to before."""
        now, before = time.monotonic(), self._current
        if before is not None:
            before.counts.seconds += now - self._switched_at
        self._current, self._switched_at = step, now
        return before

    def get_step(self, key: str) -> StepProgress:
        return self._steps.setdefault(key, StepProgress(key, Preview(self._preview_rows)))

    def get_counts(self, key: str) -> Counts:
        """Return the counts of a step, which the caller increments."""
        return self.get_step(key).count()

    def add_page(self, step: StepProgress, page: Page, fetched: Fetched) -> None:
        urls = self._fetched if fetched.error is None else self._forbidden if page.forbidden else self._failed
        urls.append(xxhash.xxh64_intdigest(page.requested_url.encode()))
        self._count_page(step, page, fetched)

    def add_optional_page(self, step: StepProgress, page: Page, secrets: tuple[str, ...]) -> None:
        """Count a page without which rows are complete, so that a failure is no failure of the run."""
        error = None if page.ok else page.error or f"the server answered {page.status}"
        fetched = Fetched(page.url, page.requested_url, page.status, error, page.fetched_at, secrets=secrets)
        self._count_page(step, page, fetched).optional += 1

    def _count_page(self, step: StepProgress, page: Page, fetched: Fetched) -> FetchTally:
        counts = step.counts
        counts.pages += 1
        counts.bytes += page.received
        if fetched.malformed:
            address = truncate(mask_password(fetched.mask(page.requested_url) or ""), _MAX_URL)
            found, first = counts.malformed
            counts.malformed = found + 1, first or f"{address}: {truncate(fetched.malformed, _MAX_MESSAGE)}"
        reason = None
        if fetched.error is not None:
            counts.errors += 1
            reason = find_reason(page.status, fetched.error)
        answer = self._answers.get((page.status, reason))
        if answer is None:
            answer = self._answers[page.status, reason] = FetchTally(page.status, reason)
        answer.pages += 1
        answer.bytes += page.received
        answer.seconds += page.seconds
        if page.attempts != 1:
            answer.retries += max(page.attempts - 1, 0)
            answer.cached += page.attempts == 0 and reason is None
        if reason is not None or self._hosts:
            self._add_failure(step.key, page, fetched, reason, answer)
        self.tick()
        return answer

    def _add_failure(
        self, step: str, page: Page, fetched: Fetched, reason: FailureReason | None, answer: FetchTally
    ) -> None:
        """Count the page of a host that has blocked one; keep a failed page if there are few of them or of its kind."""
        is_blocked, host = reason is FailureReason.BLOCKED, get_host(page.url)
        if host in self._hosts or (is_blocked and len(self._hosts) < _MAX_HOSTS):
            pages, blocked = self._hosts.get(host, (0, 0))
            self._hosts[host] = (pages + 1, blocked + is_blocked)
        if reason is None or not (self._failures_left > 0 or answer.pages <= MAX_ADDRESSES):
            return
        self._failures_left -= 1
        address = mask_password(fetched.mask(page.requested_url) or "")
        message = truncate(fetched.mask(fetched.error) or "", _MAX_MESSAGE)
        self.failures.append(FailedPage(truncate(address, _MAX_URL), page.status, reason, message, step, page.attempts))

    def add_unread(self, step: StepProgress, row: Row) -> None:
        """List the page of a row whose question no means serves."""
        if self._failures_left > 0:
            self._failures_left -= 1
            fetched = row.fetched
            address = mask_password(fetched.mask(fetched.requested_url) or "")
            message = truncate(fetched.mask(fetched.error) or "", _MAX_MESSAGE)
            reason = FailureReason.UNREAD
            page = FailedPage(truncate(address, _MAX_URL), fetched.status, reason, message, step.key)
            self.failures.append(page)

    def track(self, tracking: Tracking | None, secrets: tuple[str, ...]) -> PageTracker | None:
        """Return a tracker whose pages are reported; None where nothing is tracked."""
        if tracking is None:
            return None
        from pipelines.incremental.tracker import PageTracker  # here, because trials do without Arrow

        tracker = PageTracker(tracking, secrets, lambda page: self.seen.append(page))
        self.trackers.append(tracker)
        return tracker

    def tick(self) -> None:
        """Send a report when one is due, at most twice a second."""
        if time.monotonic() - self._reported_at >= _REPORT_SECONDS:
            self._send()

    def close(self) -> None:
        """Send the last report and wait until the driver has processed it: the counts are complete with the pass."""
        self._send()
        if self._connection:
            self._connection.finish()

    def _send(self) -> None:
        self.switch(self._current)
        self._reported_at = time.monotonic()
        if not self._connection:
            return
        report = Report(
            steps={key: step.count() for key, step in self._steps.items()},
            fetched=self._fetched,
            failed=self._failed,
            forbidden=self._forbidden,
            answers=[*self._answers.values()],
            failures=self.failures,
            hosts=self._hosts,
            previews={key: rows for key, step in self._steps.items() if (rows := step.preview.take_changed())},
            seen=self.seen,
            left_out=sum(each.left_out for each in self.trackers),
            gone=[url for each in self.trackers for url in each.gone],
        )
        self._fetched, self._failed, self._forbidden, self.failures, self.seen = [], [], [], [], []
        self._connection.send(report)
