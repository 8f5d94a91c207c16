"""Failures of attempts, and whether another attempt follows automatically."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from core.errors import BadInput
from core.tables import Execution

MAX_RETRIES = 20
SECONDS_PER_DAY = 86400
MAX_PAUSE = timedelta(hours=1)  # unless the first one is longer


class RetryOn(StrEnum):
    """The failures that a job's retries are for."""

    INFRASTRUCTURE = "infrastructure"
    ANY = "any"


MaxRetries = Annotated[int, Field(ge=0, le=MAX_RETRIES)]
RetryBackoffSeconds = Annotated[int, Field(ge=0, le=SECONDS_PER_DAY)]
TimeoutSeconds = Annotated[int, Field(ge=0, le=30 * SECONDS_PER_DAY)]
_FIELDS: Mapping[str, tuple[TypeAdapter[Any], str]] = {
    "max_retries": (TypeAdapter(MaxRetries), f"a whole number from 0 to {MAX_RETRIES}"),
    "retry_backoff_seconds": (TypeAdapter(RetryBackoffSeconds), f"a whole number from 0 to {SECONDS_PER_DAY}"),
    "timeout_seconds": (TypeAdapter(TimeoutSeconds), f"a whole number from 0, for none, to {30 * SECONDS_PER_DAY}"),
    "retry_on": (TypeAdapter(RetryOn), "infrastructure or any"),
}
FIELDS = frozenset(_FIELDS)


class FailureCode(StrEnum):
    """Why an attempt failed: the `errorCode` of an execution. Users' programs rely on the values."""

    PIPELINE = "pipeline-failed"  # the driver reported it, or another client
    TIMEOUT = "timeout"
    GIVEN_UP = "given-up"  # by an operator, because it had been running for hours
    CANCELLED = "cancelled"
    DRIVER_LOST = "driver-lost"
    LAUNCH_FAILED = "launch-failed"
    UNAVAILABLE = "dependency-unavailable"

    @property
    def is_infrastructure(self) -> bool:
        return self in (FailureCode.DRIVER_LOST, FailureCode.LAUNCH_FAILED, FailureCode.UNAVAILABLE)


REPORTED = frozenset({FailureCode.PIPELINE, FailureCode.DRIVER_LOST, FailureCode.UNAVAILABLE})  # by drivers
FINAL = frozenset({FailureCode.GIVEN_UP, FailureCode.CANCELLED})  # somebody wants it to end


def validate_retry_fields(values: Mapping[str, Any]) -> None:
    """Raise BadInput for a retry field of a job that is out of range."""
    for name, (adapter, expected) in _FIELDS.items():
        if name not in values:
            continue
        try:
            adapter.validate_python(values[name])
        except ValidationError as error:
            field = to_camel(name)
            raise BadInput(f"'{field}' is {expected}.", path=field) from error


def has_retry(execution: Execution, code: FailureCode) -> bool:
    """Return whether another attempt follows one that failed for this reason."""
    wanted = code not in FINAL and (code.is_infrastructure or execution.retry_on == RetryOn.ANY)
    return wanted and execution.retries < execution.max_retries


def compute_pause(execution: Execution) -> timedelta:
    """Return the pause before the next retry: it doubles with each one, up to an hour."""
    first = timedelta(seconds=execution.retry_backoff_seconds)
    return min(first * 2**execution.retries, max(first, MAX_PAUSE))
