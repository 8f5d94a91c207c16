"""Counts of a field's values over pages, which tasks add up; those of a complete run are the field's baseline."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, PrivateAttr

from pipelines.extract.prices import parse_price

Measure = Literal["fill", "known", "type", "disagreement", "values", "magnitude", "distinct"]

_MOST_VALUES = 64
_MOST_KNOWN = 32
_LONGEST_KNOWN = 500  # characters
_MIN_EXCESS = 5  # of a task's stretch that counts beside those of other tasks
BINS_A_DECADE = 20  # of magnitudes: a bin is 12 % wide


class Share(NamedTuple):
    """A number of doubtful pages among those that were compared."""

    doubted: int
    of: int

    def __str__(self) -> str:
        return f"{self.doubted:,} of {self.of:,}"


class MeasureCounts(BaseModel):
    """The doubtful pages among those that a measure compares, and the stretch of pages with most of them.

    A stretch begins at a doubtful page and ends where half of its pages are not doubtful: a change half-way shows in
    it as soon as a change of all pages does.
    """

    model_config = ConfigDict(extra="forbid")
    compared: int = 0
    doubted: int = 0
    stretch: int = 0
    stretch_doubted: int = 0
    open: int = 0
    open_doubted: int = 0

    @property
    def excess(self) -> int:
        """The doubtful pages of the stretch beyond its other pages."""
        return 2 * self.stretch_doubted - self.stretch

    def add(self, is_doubted: bool) -> None:
        """Add a page."""
        self.compared += 1
        self.doubted += is_doubted
        if not is_doubted and not self.open:
            return
        self.open += 1
        self.open_doubted += is_doubted
        excess = 2 * self.open_doubted - self.open
        if excess > self.excess:
            self.stretch, self.stretch_doubted = self.open, self.open_doubted
        elif excess == 0:
            self.open = self.open_doubted = 0

    def merge(self, other: MeasureCounts) -> None:
        """Add the pages of another task; the long stretches of both are one."""
        self.compared += other.compared
        self.doubted += other.doubted
        if min(self.excess, other.excess) >= _MIN_EXCESS:
            self.stretch += other.stretch
            self.stretch_doubted += other.stretch_doubted
        elif other.excess > self.excess:
            self.stretch, self.stretch_doubted = other.stretch, other.stretch_doubted


class FieldCounts(BaseModel):
    """Counts of one field over some pages; they can be added.

    `values` has the number of pages by a hash of the value, empty where there are too many; `magnitudes` by a
    logarithmic bin of the number, or of the length of a text. `known` has some values by the URL of their page.
    """

    model_config = ConfigDict(extra="forbid")
    pages: int = 0
    filled: int = 0
    typed: int = 0  # values of the field's type
    values: dict[str, int] = {}
    has_many: bool = False
    magnitudes: dict[int, int] = {}
    known: dict[str, str] = {}
    measures: dict[Measure, MeasureCounts] = {}
    _last_known: str = PrivateAttr("")  # the hash beyond which no further address is kept

    def add(self, value: str | None, is_number: bool, is_typed: bool, url: str = "") -> None:
        """Add the value of a page; `is_number` is whether the field's values are numbers."""
        self.pages += 1
        if not value:
            return
        self.filled += 1
        self.typed += is_typed
        if not self.has_many:
            name = hash_value(value)
            self.values[name] = self.values.get(name, 0) + 1
            self._limit_values()
        if (size := find_magnitude(value, is_number)) is not None:
            self.magnitudes[size] = self.magnitudes.get(size, 0) + 1
        if url and len(value) <= _LONGEST_KNOWN and (not self._last_known or hash_value(url) < self._last_known):
            self.known[url] = value
            self._limit_known()

    def add_doubts(self, doubts: Mapping[Measure, bool]) -> None:
        """Add which measures doubt a page, of those that could compare it."""
        for measure, is_doubted in doubts.items():
            if measure not in self.measures:
                self.measures[measure] = MeasureCounts()
            self.measures[measure].add(is_doubted)

    def merge(self, other: FieldCounts) -> None:
        """Add the pages of another task."""
        self.pages += other.pages
        self.filled += other.filled
        self.typed += other.typed
        self.has_many |= other.has_many
        for name, count in other.values.items():
            self.values[name] = self.values.get(name, 0) + count
        self._limit_values()
        for size, count in other.magnitudes.items():
            self.magnitudes[size] = self.magnitudes.get(size, 0) + count
        self.known |= other.known
        self._limit_known()
        for measure, counts in other.measures.items():
            self.measures.setdefault(measure, MeasureCounts()).merge(counts)

    def _limit_known(self) -> None:
        """Keep some pages of all of the run, which are the same ones in every run."""
        if len(self.known) < _MOST_KNOWN:
            return
        names = {hash_value(url): url for url in self.known}
        kept = sorted(names)[:_MOST_KNOWN]
        self.known, self._last_known = {names[name]: self.known[names[name]] for name in kept}, kept[-1]

    def _limit_values(self) -> None:
        if self.has_many or len(self.values) > _MOST_VALUES:
            self.has_many, self.values = True, {}


@lru_cache(maxsize=1024)
def hash_value(value: str) -> str:
    """Return a short name of a value that is equal in all processes."""
    return hashlib.blake2b(value.encode("utf-8", "replace"), digest_size=6).hexdigest()


def find_magnitude(value: str, is_number: bool) -> int | None:
    """Return the bin of a number, or of the length of a text; None for a text without a number."""
    size = parse_price(value) if is_number else float(len(value))
    return None if size is None else round(math.log10(max(abs(size), 1e-3)) * BINS_A_DECADE)
