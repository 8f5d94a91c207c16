"""Errors that a run meets while the database does not answer, Spindle's own or the one that Dagster writes to."""

from __future__ import annotations

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from core.errors import Unavailable

OUTAGES = (Unavailable, OperationalError, InterfaceError, PoolTimeout)


def is_outage(error: BaseException | None) -> bool:
    """Return whether the error, or its cause, is a database that does not answer."""
    while error is not None:
        if isinstance(error, OUTAGES):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False
