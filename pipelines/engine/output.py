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


class RowOutput:
    """Rows with their links as they are, and by step key the links of explores, of level 0 for visited pages."""

    def __init__(self) -> None:
        self.links: dict[str, list[tuple[str, Row, int]]] = {}
        self._rows: list[tuple[str | None, Row]] = []

    def add_row(self, row: Row, *link: str | None) -> None:
        self._rows.append((link[0] if link else None, row))

    def add_link(self, key: str, row: Row, link: str, level: int) -> None:
        self.links.setdefault(key, []).append((link, row, level))

    def is_full(self) -> bool:
        return bool(self._rows)

    def is_empty(self) -> bool:
        return not self._rows

    def take(self) -> list[tuple[str | None, Row]]:
        rows, self._rows = self._rows, []
        return rows
