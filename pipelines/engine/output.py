"""The output of a pass as its stages write it, in one of several forms."""

from __future__ import annotations

from typing import Protocol, TypeVar

from pipelines.extract.rows import Row

Batch = TypeVar("Batch")
Written = TypeVar("Written", covariant=True)
Entry = tuple[str | None, Row | None]  # a link with the row that waits for its page; without a row, a visited link


class PassOutput(Protocol[Written]):
    """The rows and links that a pass writes; `take` returns those since the last call."""

    def add_row(self, row: Row, *link: str | None) -> None:
        """Add a row, with its link when the next pass fetches that."""
        ...

    def add_link(self, key: str, row: Row, link: str, level: int) -> None:
        """Add a link of the explore with this step key."""
        ...

    def is_full(self) -> bool: ...

    def is_empty(self) -> bool: ...

    def take(self) -> Written: ...
