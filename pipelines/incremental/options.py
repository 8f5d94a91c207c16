"""The option `incremental` of a pipeline, and how a pass treats known pages; without Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from pipelines.language.arguments import Arguments

NEVER = "never"
_WEEK = "P7D"
_DURATION = TypeAdapter(timedelta)


def _validate_recheck(value: object) -> str:
    text = str(value)
    if text == NEVER:
        return text
    try:
        seconds = _DURATION.validate_python(text).total_seconds() if text.startswith("P") else 0
    except ValidationError:
        seconds = 0
    if seconds <= 0:
        raise ValueError(f"'{text[:100]}' is no duration: write P7D for 7 days, PT12H for 12 hours, or never")
    return text


class Incremental(Arguments):
    """The treatment of pages whose rows an earlier execution of the job has published.

    Without `keys` they are left out. With keys they are requested again once they are older than `recheck`, and the
    rows of changed pages replace those with equal keys.
    """

    keys: tuple[str, ...] = Field(default=(), description="columns that tell rows apart")
    recheck: Annotated[str, BeforeValidator(_validate_recheck)] = Field(
        default=_WEEK, description="age from which a page is asked for again, such as P7D or PT12H; or never"
    )

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        if "recheck" in self.model_fields_set and not self.keys:
            raise ValueError("recheck needs 'keys', by which the rows of a changed page replace its earlier ones")
        return self

    @property
    def recheck_seconds(self) -> float | None:
        """The age in seconds from which a known page is requested again; None for never."""
        if not self.keys or self.recheck == NEVER:
            return None
        return _DURATION.validate_python(self.recheck).total_seconds()


class PageOutcome(IntEnum):
    """The result of a request: a page, an unchanged known page, or a known page that no longer exists."""

    FETCHED = 0
    UNCHANGED = 1
    GONE = 2


@dataclass(frozen=True, slots=True)
class Tracking:
    """How a pass treats the pages that its job knows, which are in the folder `known`.

    With `recheck_seconds` they are asked for again when they are older. With `asks_all` they always are: their links
    are followed. With `has_validators` a request for a known page has the conditions of its last answer.
    """

    job: str
    known: str | None
    recheck_seconds: float | None = None
    asks_all: bool = False
    has_validators: bool = False
