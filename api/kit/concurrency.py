"""Seats: how much of what takes long a process does at once, for one caller and in all."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from core.errors import TooMany

RETRY_AFTER_SECONDS = 10


class Seats:
    """`of_one` for each caller and `in_all`; `refusal` is what one without a seat is told."""

    def __init__(self, of_one: int, in_all: int, refusal: str) -> None:
        self.of_one = of_one
        self.in_all = in_all
        self._refusal = refusal
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def seat(self, caller: str) -> Generator[None]:
        """Raises TooMany when the caller, or everybody together, has as many as there may be."""
        with self._lock:
            if self._taken[caller] >= self.of_one or self._taken.total() >= self.in_all:
                raise TooMany(self._refusal, RETRY_AFTER_SECONDS)
            self._taken[caller] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[caller] -= 1
                if not self._taken[caller]:
                    del self._taken[caller]


# by organization: whoever is asked may take his time, and the threads are for all requests
OUTSIDE = Seats(4, 16, "Too many requests to other services are under way. Try again in a moment.")
# more than run at once: the others wait a little, in threads that all requests share
QUERIES = Seats(8, 16, "Too many queries are under way. Try again in a moment.")
# each is read into memory, some times as large as its content
PACKAGES = Seats(4, 8, "Too many packages are being read. Try again in a moment.")
# each is a file that grows as slowly as its sender likes, and a connection
UPLOADS = Seats(8, 128, "Too many packages are being uploaded. Try again in a moment.")
