"""Which page stores an execution uses, and how long their pages are fresh."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Replay:
    """The pages of an earlier execution: `folders` list them, and those stored after `until`, its end, are others."""

    execution_id: str
    folders: tuple[str, ...]
    until: datetime


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """Locations of the stores `shared` by an organization and `private` to the execution; null for no store.

    Pages fetched since `since`, when the execution began, are always fresh. Earlier ones are fresh as long as their
    server says; without such a header for `lifetime_seconds`, or else not at all. With 0 no earlier page is fresh.
    Pages whose URLs contain one of `secrets` are not stored. Unless `enabled`, an execution gets no private store.
    With `used`, the pages of the shared store that the execution uses are listed in this folder. A `replay` has the
    pages of an earlier execution alone, and so has one whose store `is_complete`: nothing is requested.
    """

    shared: str | None = None
    private: str | None = None
    lifetime_seconds: float | None = None
    since: datetime | None = None
    secrets: tuple[str, ...] = ()
    enabled: bool = True
    used: str | None = None
    replay: Replay | None = None
    is_complete: bool = False
