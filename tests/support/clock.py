"""A clock that a test sets."""

from __future__ import annotations


class Clock:
    """A clock that only the test moves; in place of the module `time` of a product's module, its sleeps move it."""

    now = 100.0

    def __call__(self) -> float:
        return self.now

    time = monotonic = __call__

    def sleep(self, seconds: float) -> None:
        self.now += seconds
