"""The fields of a job that a request sets."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from core.errors import BadInput

MAX_RETRIES = 20
SECONDS_PER_DAY = 86400


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
RETRY_FIELDS = frozenset(_FIELDS)


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
