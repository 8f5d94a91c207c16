"""Errors of a run while a disk is full or a database does not answer: ours, or the one that Dagster writes to."""

from __future__ import annotations

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from core.errors import Unavailable
from core.infra.database import is_disk_full
from core.infra.files import FULL

OUTAGES = (Unavailable, OperationalError, InterfaceError, PoolTimeout)


def is_outage(error: BaseException | None) -> bool:
    """Return whether the error, or its cause, is a database that does not answer, or a full disk."""
    while error is not None:
        if isinstance(error, OUTAGES) or (isinstance(error, OSError) and error.errno in FULL):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def describe_outage(error: BaseException) -> Unavailable:
    """Return the error for those who wait for Dagster's database."""
    if is_disk_full(error) or (isinstance(error, OSError) and error.errno in FULL):
        return Unavailable("There is no space left on the disk of Dagster's database.", code="no-space")
    return Unavailable("Dagster's database does not answer.")
