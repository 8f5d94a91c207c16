"""Errors of a run while a disk is full or a database does not answer: ours, or the one that Dagster writes to."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from core.errors import Unavailable
from core.infra.database import is_disk_full
from core.infra.files import FULL

T = TypeVar("T")
RETRY_SECONDS = 1.0
OUTAGE = re.compile(r"\b(OperationalError|InterfaceError|QueuePool limit|connection already closed)\b")
WAITING = "The database does not answer. Errors are counted until it does."
RESUMED = "The database answers again after %.0f s and %d errors."
OUTAGES = (Unavailable, OperationalError, InterfaceError, PoolTimeout)


def is_outage(error: BaseException | None) -> bool:
    """Return whether the error, or its cause, is a database that does not answer, or a full disk."""
    while error is not None:
        if isinstance(error, OUTAGES) or (isinstance(error, OSError) and error.errno in FULL):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def describe_outage(error: BaseException) -> Unavailable:
    """Return the error for threads that wait for Dagster's database."""
    if is_disk_full(error) or (isinstance(error, OSError) and error.errno in FULL):
        return Unavailable("There is no space left on the disk of Dagster's database.", code="no-space")
    return Unavailable("Dagster's database does not answer.")


def retry_outages(function: Callable[[], T], pause: Callable[[float], object]) -> T:
    """Call a function until the database answers; `pause` waits, and raises where the caller is to end."""
    while True:
        try:
            return function()
        except Unavailable:
            pause(RETRY_SECONDS)


class OutageFilter(logging.Filter):
    """Lets one line of an outage pass, and counts the others, which have tracebacks of a hundred lines."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._errors = 0
        self._since = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not is_outage(error) and not OUTAGE.search(record.getMessage()):
            return True
        with self._lock:
            self._errors += 1
            if self._errors > 1:
                return False
            self._since = time.monotonic()
        record.msg, record.args, record.exc_info, record.exc_text = WAITING, (), None, None
        return True

    def note_answer(self) -> None:
        """Log how many errors there were, with the first answer after them."""
        with self._lock:
            errors, self._errors = self._errors, 0
        if errors:
            seconds = time.monotonic() - self._since
            logging.getLogger("dagster.daemon").warning(RESUMED, seconds, errors)
