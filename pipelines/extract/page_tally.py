"""Counts of the pages on which the selectors of a stage find nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.extract.rows import NOTHING, Fetched


@dataclass(frozen=True, slots=True)
class PageSelector:
    """A selector that a stage applies to pages: of the column that it gives, or without one of the stage itself."""

    column: str | None
    selector: str | None
    required: bool = False

    def __str__(self) -> str:
        if self.selector is None:
            return f"column {self.column}"
        return f"selector {self.selector}" + (f" (column {self.column})" if self.column else "")


class PageTally:
    """Counts the pages that selectors are applied to, and per selector the pages without a match.

    The rows of a page arrive one after another; a selector has found something if it has for one of them.
    """

    def __init__(self, selectors: int) -> None:
        self.pages = 0
        self._empty = [0] * selectors
        self._page: Fetched = NOTHING
        self._missing = set[int]()

    def add(self, page: Fetched, values: Iterable[object] = (), first: int = 0) -> None:
        """Add the values that selectors found in one row of the page, beginning with selector number `first`."""
        if page is not self._page:
            self._begin(page)
        if self._missing:
            self._missing.difference_update([n for n, value in enumerate(values, first) if value not in (None, [])])

    def count_empty(self) -> list[int]:
        """Return the number of pages without a match, per selector."""
        return [count + (number in self._missing) for number, count in enumerate(self._empty)]

    def _begin(self, page: Fetched) -> None:
        self._empty, self._page = self.count_empty(), page
        self._missing.clear()
        if page.page is not None:  # it was read
            self.pages += 1
            self._missing.update(range(len(self._empty)))
