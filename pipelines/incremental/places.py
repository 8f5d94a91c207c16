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
