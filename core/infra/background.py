"""Background processes: shutdown on a signal, and log lines for outages of their dependencies."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

import structlog

from core.errors import SpindleError, Unavailable
from core.infra.files import FULL, describe_disk_fault

log = structlog.get_logger()


def create_shutdown_event() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set."""
    shutdown = threading.Event()

    def handle_signal(_number: int, _frame: FrameType | None) -> None:
        shutdown.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle_signal)
    return shutdown


class OutageLog:
    """Runs steps that are repeated for ever, and logs an outage once when it begins and once when it ends."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}  # by step
        self._since: dict[str, float] = {}  # by reason

    def run_step(self, step: Callable[[], object]) -> bool:
        """Run the step; return False when a dependency is unavailable. Other errors are logged and not raised."""
        name = step.__name__
        try:
            step()
        except Unavailable as error:
            self.report_failure(name, error.sentence)
            return False
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.report_failure(name, describe_disk_fault(error, "service").sentence)
            return False
        except SpindleError as error:
            log.error("failed", step=name, reason=error.sentence)
        self.report_success(name)
        return True

    def report_failure(self, step: str, reason: str) -> None:
        if self._reasons.get(step) == reason:
            return
        self.report_success(step)
        self._reasons[step] = reason
        if reason not in self._since:
            self._since[reason] = time.monotonic()
            log.warning("waiting", reason=reason)

    def report_success(self, step: str) -> None:
        """Log the end of the outage unless another step still fails for the same reason."""
        reason = self._reasons.pop(step, None)
        if reason is not None and reason not in self._reasons.values():
            seconds = round(time.monotonic() - self._since.pop(reason), 1)
            log.warning("resumed", after=reason, seconds=seconds)
