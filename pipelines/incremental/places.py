"""Where the known pages of a job are, and what a task reports of a page; without Arrow, for the service."""

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
    """What a request for a page has found: a page, that a known one is unchanged, or that it is gone."""

    FETCHED = 0
    UNCHANGED = 1
    GONE = 2
