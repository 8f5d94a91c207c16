"""The place of a job's known pages, and a task's report of a page; without Arrow, for the service."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

SeenPage = tuple[bytes, int, int, str | None, str | None]
"""Digest, outcome, time in microseconds, ETag and Last-Modified."""


@dataclass(frozen=True, slots=True)
class KnownPagesPlace:
    """Folders of a job's known pages: the current one, if any, and the one that this execution writes.

    The digests of addresses are keyed by the `job`, so that those of different jobs cannot be compared.
    """

    job: str
    folder: str
    earlier: str | None = None


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
