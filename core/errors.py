"""The one exception root: a sentence for the person who meets it, an HTTP status, and whether a retry may help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Detail:
    """One located part of an error: `path` is a field (`agentId`) or a place in the YAML (`line 3, column 5`)."""

    path: str
    message: str


class SpindleError(Exception):
    """Base of every error that a caller may see; `str(error)` is a sentence that leaks nothing internal."""

    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, sentence: str, details: Sequence[Detail] = ()) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.details = tuple(details)


class BadInput(SpindleError):
    status = 400


class Unauthorized(SpindleError):
    status = 401


class Forbidden(SpindleError):
    status = 403


class NotFound(SpindleError):
    """Unknown, or another organization's: the two are told alike."""

    status = 404


class Conflict(SpindleError):
    status = 409


class PreconditionFailed(SpindleError):
    """The record is not as the caller has seen it."""

    status = 412


class TooLarge(SpindleError):
    status = 413


class TooMany(SpindleError):
    status = 429
    retryable = True

    def __init__(self, sentence: str, retry_after: int) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class Unavailable(SpindleError):
    """A dependency (database, query engine, Dagster) does not answer."""

    status = 503
    retryable = True


class CutOff(Unavailable):
    """The connection to the database was cut while something was read or counted over it; a new one may hold."""
