"""Failures of attempts, and whether another attempt follows automatically."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from core.tables import Execution

MAX_PAUSE = timedelta(hours=1)  # unless the first one is longer


class FailureCode(StrEnum):
    """Why an attempt failed: the `errorCode` of an execution. Users' programs rely on the values."""

    PIPELINE = "pipeline-failed"  # the driver reported it, or another client
    TIMEOUT = "timeout"
    GIVEN_UP = "given-up"  # by an operator, because it had been running for hours
    CANCELLED = "cancelled"
    DRIVER_LOST = "driver-lost"
    STOPPED = "service-stopped"
    LAUNCH_FAILED = "launch-failed"
    UNAVAILABLE = "dependency-unavailable"
    CONFLICT = "publish-conflict"  # with another execution of the job

    @property
    def is_infrastructure(self) -> bool:
        return self in (
            FailureCode.DRIVER_LOST,
            FailureCode.STOPPED,
            FailureCode.LAUNCH_FAILED,
            FailureCode.UNAVAILABLE,
            FailureCode.CONFLICT,
        )


REPORTED = frozenset({FailureCode.PIPELINE, FailureCode.DRIVER_LOST, FailureCode.UNAVAILABLE})  # by drivers
MOST_LOST_WITH_SERVICE = 5  # attempts: an execution that takes the machine's memory may be what ends the service
FINAL = frozenset({FailureCode.GIVEN_UP, FailureCode.CANCELLED})  # somebody wants it to end


def has_retry(execution: Execution, code: FailureCode) -> bool:
    """Return whether another attempt follows one that failed for this reason; a stop of the service is no retry."""
    if code is FailureCode.STOPPED:
        return True
    wanted = code not in FINAL and (code.is_infrastructure or execution.retry_on == "any")
    return wanted and execution.retries < execution.max_retries


def explain_loss_with_service(execution: Execution) -> FailureCode:
    """Return why an attempt failed whose driver ended together with the service: a stop, unless that happens often."""
    return FailureCode.STOPPED if execution.attempt < MOST_LOST_WITH_SERVICE else FailureCode.DRIVER_LOST


def compute_pause(execution: Execution) -> timedelta:
    """Return the pause before the next retry: it doubles with every one, up to an hour."""
    first = timedelta(seconds=execution.retry_backoff_seconds)
    return min(first * 2**execution.retries, max(first, MAX_PAUSE))
