"""What processes that work in the background share: they end when told to, and wait for what is away."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

import structlog

from core.errors import SpindleError, Unavailable

log = structlog.get_logger()


def told_to_stop() -> threading.Event:
    """Set once this process gets SIGINT or SIGTERM."""
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return stop


class Outages:
    """Says once that something is away and once that it is back, however often and by whom it is tried meanwhile."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._since: dict[str, float] = {}

    def surviving(self, step: Callable[[], object]) -> bool:
        """Takes the step; False when what it needs is away. What else goes wrong is logged, and is no reason to end."""
        name = step.__name__
        try:
            step()
        except Unavailable as error:
            self.began(name, error.sentence)
            return False
        except SpindleError as error:
            log.error("failed", step=name, reason=error.sentence)
        self.ended(name)
        return True

    def began(self, step: str, reason: str) -> None:
        """The step cannot be taken for this reason."""
        self.ended(step, but=reason)
        self._reasons[step] = reason
        if reason not in self._since:
            self._since[reason] = time.monotonic()
            log.warning("waiting", reason=reason)

    def ended(self, step: str, but: str | None = None) -> None:
        """The step can be taken, or is kept by another reason than before."""
        reason = self._reasons.get(step)
        if reason is None or reason == but:
            return
        del self._reasons[step]
        if reason not in self._reasons.values():
            seconds = round(time.monotonic() - self._since.pop(reason), 1)
            log.warning("going on", after=reason, seconds=seconds)
