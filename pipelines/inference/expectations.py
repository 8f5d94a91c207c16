"""What a field's values were before, and which measures doubt the value of a page."""

from __future__ import annotations

import re
from collections import Counter

from selectolax.lexbor import LexborNode

from pipelines.extract.document import Element
from pipelines.inference.field_counts import BINS_A_DECADE, FieldCounts, Measure, Share, find_magnitude, hash_value
from pipelines.inference.grounding import PageIndex, values_agree
from pipelines.inference.reading import find_disagreement
from pipelines.inference.records import ProvenField, ProvenSelectors
from pipelines.inference.values import get_value_type

MIN_BASELINE = 20  # pages; of fewer, the values of a column of few and the magnitudes say little
_ALWAYS = 0.95  # of the pages have what a page is doubtful without
_MIN_SAMPLES = 5
_MOST_FEW = 24  # values of a column of few
_PAGES_A_VALUE = 4  # at least, in a column of few
_MARGIN = round(0.6 * BINS_A_DECADE)  # a factor of four beyond the least and the largest
_STRUCK = frozenset(("s", "del", "strike"))
_EARLIER = re.compile(r"(?<![a-z])(old|was|before|strike|rrp|uvp|msrp|list-?price|regular|compare)", re.IGNORECASE)
_MOST_SEEN = 10_000  # different values of a field in a task
_MIN_KNOWN = 2  # characters; a single one stands on a page for many reasons
_LONG_KNOWN = 4  # a shorter one has to be all of an element's text


class SeenValues:
    """The hashes of a run's values so far. The share of the most frequent one is the same early and late in a run.

    That of values which are repeated is not: it grows with the number of pages.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.most = 0  # pages that share a value

    def add(self, name: str) -> None:
        """Add the hash of a value."""
        if name in self._counts or len(self._counts) < _MOST_SEEN:
            self._counts[name] += 1
            self.most = max(self.most, self._counts[name])

    def is_most_frequent(self, name: str) -> bool:
        """Return whether no value is more frequent, of those that were there more than once."""
        return self._counts[name] == self.most > 1


class Expectation:
    """The counts of a field before this run: those of a complete run, else those of the pages that proved it."""

    def __init__(self, record: ProvenSelectors, field: ProvenField) -> None:
        self.field = field
        self.counts = field.baseline or _count_samples(record, field)
        counts, filled = self.counts, self.counts.filled
        has_baseline = field.baseline is not None and filled >= MIN_BASELINE
        distinct = len(counts.values)
        self.is_number = field.type == "number"
        self.is_always = counts.pages > 0 and counts.filled >= _ALWAYS * counts.pages
        self._is_typed = field.type != "text" and filled > 0 and counts.typed >= _ALWAYS * filled
        self._is_few = has_baseline and 2 <= distinct <= _MOST_FEW and filled >= _PAGES_A_VALUE * distinct
        self._is_distinct = filled >= _MIN_SAMPLES and (counts.has_many or distinct >= _ALWAYS * filled)
        sizes = sorted(Counter(counts.magnitudes).elements()) if has_baseline else []
        self.median = sizes[len(sizes) // 2] if sizes else None
        self._range = (sizes[0] - _MARGIN, sizes[-1] + _MARGIN) if sizes else None

    def find_doubts(self, element: Element, value: str | None, seen: SeenValues) -> dict[Measure, bool]:
        """Return for every measure that can compare the page whether its value is doubtful.

        `seen` are the run's earlier values.
        """
        doubts: dict[Measure, bool] = {}
        if self.is_always:
            doubts["fill"] = value is None
        known = self.field.known.get(element.document.page.url, "") if element.is_page else ""
        if len(known) >= _MIN_KNOWN:
            differs = value is None or not values_agree(value, known)
            doubts["known"] = differs and _has_still(element, known)
        if value is None:
            return doubts
        if self._is_typed:
            doubts["type"] = get_value_type(value) != self.field.type
        if (disagrees := find_disagreement(self.field, element)) is not None:
            doubts["disagreement"] = disagrees
        name = hash_value(value)
        if self._is_few:
            doubts["values"] = name not in self.counts.values
        if self._range and (size := find_magnitude(value, self.is_number)) is not None:
            doubts["magnitude"] = not self._range[0] <= size <= self._range[1]
        if self._is_distinct and seen.most:
            doubts["distinct"] = seen.is_most_frequent(name)
        return doubts

    def get_share(self, measure: Measure) -> Share:
        """Return the share of pages that a measure doubted before, or would have doubted."""
        counts = self.counts
        if measure == "fill":
            return Share(counts.pages - counts.filled, counts.pages)
        if measure == "type":
            return Share(counts.filled - counts.typed, counts.filled)
        if measure == "values":  # the chance of a new value is that of a value that was there once
            return Share(sum(count == 1 for count in counts.values.values()), counts.filled)
        if measure == "magnitude":
            return Share(1, counts.filled)
        known = counts.measures.get(measure)
        return Share(known.doubted, known.compared) if known else Share(0, counts.filled)


def _has_still(element: Element, known: str) -> bool:
    """Return whether a page shows a value that it had, but not as an earlier price beside a new one."""
    grounded = PageIndex(element).ground(known)
    places = [each for each in grounded.locations if not _is_earlier(each.node)] if grounded else []
    return any(len(known) >= _LONG_KNOWN or each.element.text().strip() == known for each in places)


def _is_earlier(place: LexborNode) -> bool:
    node: LexborNode | None = place
    for _ in range(3):
        if node is None:
            break
        if node.tag in _STRUCK or _EARLIER.search(f"{node.attributes.get('class')} {node.attributes.get('id')}"):
            return True
        node = node.parent
    return False


def _count_samples(record: ProvenSelectors, field: ProvenField) -> FieldCounts:
    """Return the counts of the pages that proved a field."""
    counts = FieldCounts()
    for value in field.known.values():
        counts.add(value, field.type == "number", get_value_type(value) == field.type)
    counts.pages = max(len(record.sample_urls), counts.filled, field.pages, 1)
    unknown = max(round(field.fill * counts.pages) - counts.filled, 0)  # items, long texts, records written by hand
    counts.filled, counts.typed = counts.filled + unknown, counts.typed + unknown
    return counts
