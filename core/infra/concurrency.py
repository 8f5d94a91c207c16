"""Limits on slow work that one process does at the same time, per caller and in total."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from core.errors import TooMany

RETRY_AFTER_SECONDS = 10


class ConcurrencyLimiter:
    """Admits `per_caller` pieces of work of every caller and `total` of all callers at the same time."""

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
