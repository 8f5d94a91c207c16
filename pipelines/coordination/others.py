"""Other fetchers of the same run: which pages they ask for, so that each page is asked for by one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pipelines.page_cache.groups import Place  # pyarrow comes with it, which checking a pipeline does not need


@dataclass(frozen=True, slots=True)
class Wanted:
    """Another waits for a page that is ours: it is to hear `over` or `moved` of it."""

    key: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A page that another had stands at `place` now."""

    key: int
    place: Place


@dataclass(frozen=True, slots=True)
class Moved:
    """What another asked for redirects to `address`."""

    key: int
    address: str


@dataclass(frozen=True, slots=True)
class Yours:
    """A page that another had is ours now: it failed there, or who had it is gone; `look` whether it was kept."""

    key: int
    look: bool


News = Wanted | Kept | Moved | Yours


class Others(Protocol):
    """What a fetcher is told of pages, for one `fetch` at a time; `key` is what the cache keeps a page by."""

    def claim(self, keys: Sequence[int]) -> Collection[int]:
        """Claims pages; returns those that others have. Of each of these `news` tells one day."""
        ...

    def over(self, key: int, place: Place | None) -> None:
        """A page that was wanted is over: it stands at `place`, or could not be kept."""
        ...

    def moved(self, key: int, address: str) -> None:
        """A page that was wanted redirects to `address`, and what that leads to is still to come."""
        ...

    def news(self) -> Sequence[News]:
        """What has come to be known since the last call. Returns at once."""
        ...
