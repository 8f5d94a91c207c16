"""Limits on slow requests that one process handles at the same time, per caller and in total."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from core.errors import TooMany

RETRY_AFTER_SECONDS = 10


class ConcurrencyLimiter:
    """Admits `per_caller` requests of each caller and `total` requests of all callers at the same time."""

    def __init__(self, per_caller: int, total: int, refusal: str) -> None:
        self.per_caller = per_caller
        self.total = total
        self._refusal = refusal
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    @contextmanager
    def acquire(self, caller: str) -> Generator[None]:
        """Hold a slot for the block; raise TooMany when the caller, or all callers together, have no slot left."""
        with self._lock:
            if self._running[caller] >= self.per_caller or self._running.total() >= self.total:
                raise TooMany(self._refusal, RETRY_AFTER_SECONDS, code="concurrency-limit")
            self._running[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[caller] -= 1
                if not self._running[caller]:
                    del self._running[caller]


# callers are organizations. Remote servers may be slow, and every request here holds one of the process's threads
OUTBOUND = ConcurrencyLimiter(4, 16, "Too many requests to other services are running. Try again in a moment.")
# more than the query processes: the rest waits in threads that all requests share
QUERIES = ConcurrencyLimiter(8, 16, "Too many queries are running. Try again in a moment.")
# a package in memory takes several times the size of its content
PACKAGES = ConcurrencyLimiter(4, 8, "Too many packages are being read. Try again in a moment.")
# an upload holds a file and a connection for as long as its sender likes
UPLOADS = ConcurrencyLimiter(8, 128, "Too many packages are being uploaded. Try again in a moment.")
# each holds a file, and at its end a process that converts it
DATASET_UPLOADS = ConcurrencyLimiter(4, 16, "Too many datasets are being uploaded. Try again in a moment.")
# each holds a process that reads a plugin
WHEEL_UPLOADS = ConcurrencyLimiter(2, 4, "Too many plugins are being uploaded. Try again in a moment.")
# each may hold a process that reads files
DOWNLOADS = ConcurrencyLimiter(8, 32, "Too many datasets are being downloaded. Try again in a moment.")
# each holds a connection of its client, but no thread
WAITS = ConcurrencyLimiter(200, 1000, "Too many requests are waiting for executions. Execute without `wait`.")
