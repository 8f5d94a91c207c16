"""Drift: values of a run against those before it, counts against counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel, ConfigDict, PrivateAttr

from pipelines.contract.questions import Found
from pipelines.extract.document import Element
from pipelines.inference.expectations import Expectation, SeenValues
from pipelines.inference.field_counts import FieldCounts, Measure, MeasureCounts, Share, hash_value
from pipelines.inference.records import ProvenField, ProvenSelectors
from pipelines.inference.values import get_value_type

_MOST_KNOWN = 48  # values of a field by URL
_MANY: Mapping[Measure, float] = {"values": 0.5, "magnitude": 0.5}  # of all pages; new content is no drift
_SOME = 0.2  # of all pages, for the other measures
_FEW_DOUBTS = 3
_MIN_ONE = 5  # pages with one value
_SHIFTED = 0.8  # of the values on one side of the earlier median
_ASKED: tuple[Measure, ...] = ("fill", "known", "type", "disagreement")  # worth a look at few pages, too
ERROR_RATE = 1e-5  # of one measure of one field in a run
_ERROR_RATE_OF_ALL = 1e-3  # where all pages are doubtful: among more than 20 pages far below the other by itself


@dataclass(frozen=True, slots=True)
class Drift:
    """A field whose values are not as they were: the share of doubtful pages `then` and `now`.

    One that is not certain is worth a look at the pages, and is no proof.
    """

    field: str
    measure: Measure
    then: Share
    now: Share
    is_certain: bool = True


class RunStatistics(BaseModel):
    """Counts of a run's values for one record, by field.

    Leave out pages that are blocked or not there: they are no change of the template.
    """

    model_config = ConfigDict(extra="forbid")
    total: dict[str, FieldCounts] = {}
    _expected: dict[str, Expectation] = PrivateAttr(default_factory=dict[str, Expectation])
    _seen: dict[str, SeenValues] = PrivateAttr(default_factory=dict[str, SeenValues])

    def observe(
        self, record: ProvenSelectors, element: Element, values: Mapping[str, Found | None]
    ) -> dict[str, Measure]:
        """Add the values of a page; return the fields whose values are doubtful, and why."""
        found: dict[str, Measure] = {}
        for field in record.fields:
            if not field.candidates or field.name not in values:
                continue
            if field.name not in self._expected:
                self._expected[field.name] = Expectation(record, field)
            expected, each = self._expected[field.name], values[field.name]
            value = each.value if each and each.value else None
            if field.name not in self.total:
                self.total[field.name] = FieldCounts()
            if field.name not in self._seen:
                self._seen[field.name] = SeenValues()
            counts, seen = self.total[field.name], self._seen[field.name]
            doubts = expected.find_doubts(element, value, seen)
            is_typed = value is not None and get_value_type(value) == field.type
            counts.add(value, expected.is_number, is_typed, element.document.page.url if element.is_page else "")
            counts.add_doubts(doubts)
            if value is not None:
                seen.add(hash_value(value))
            why: list[Measure] = [measure for measure, is_doubted in doubts.items() if is_doubted]
            if why:
                found[field.name] = why[0]
        return found

    def merge(self, other: RunStatistics) -> None:
        """Add the pages of another task."""
        for field, counts in other.total.items():
            self.total.setdefault(field, FieldCounts()).merge(counts)

    def to_json(self) -> str:
        """Return the statistics as JSON."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the statistics of a JSON text."""
        return cls.model_validate_json(text)


def find_drift(record: ProvenSelectors, statistics: RunStatistics) -> list[Drift]:
    """Return the fields whose values have changed, at the end of a run."""
    found: list[Drift] = []
    for expected, counts in _iter_counted(record, statistics):
        certain = (each for each in _list_doubts(expected, counts, is_final=True) if each.is_certain)
        whole = _compare_whole(expected, counts)
        found += [*certain, *whole][:1]
    return found


def find_doubted(record: ProvenSelectors, statistics: RunStatistics, is_final: bool) -> list[Drift]:
    """Return the fields whose doubtful values need a repair, or a look at their pages.

    Before the pages have ended, it takes more of them.
    """
    found: list[Drift] = []
    for expected, counts in _iter_counted(record, statistics):
        doubts = sorted(_list_doubts(expected, counts, is_final), key=lambda each: not each.is_certain)
        found += doubts[:1]
    return found


def _iter_counted(record: ProvenSelectors, statistics: RunStatistics) -> Iterable[tuple[Expectation, FieldCounts]]:
    for field in record.fields:
        if field.candidates and (counts := statistics.total.get(field.name)) is not None:
            yield Expectation(record, field), counts


def _list_doubts(expected: Expectation, counts: FieldCounts, is_final: bool) -> Iterable[Drift]:
    """Yield the findings of the measures of single pages."""
    for measure, each in counts.measures.items():
        if not each.doubted:
            continue
        then, now = expected.get_share(measure), Share(each.doubted, each.compared)
        outside = Share(then.doubted + each.doubted - each.stretch_doubted, then.of + each.compared - each.stretch)
        stretch = Share(each.stretch_doubted, each.stretch)
        if measure == "known":  # of the same pages, so that chance is no explanation
            is_certain = each.doubted >= max(_FEW_DOUBTS, each.compared / 3) or each.excess > _FEW_DOUBTS
        elif is_more(outside, stretch, looks=each.compared):
            is_certain, now = True, stretch if 2 * each.doubted < each.compared else now
        else:
            is_many = each.doubted >= _MANY.get(measure, _SOME) * each.compared
            is_certain = (is_many and is_more(then, now)) or (is_final and is_all(then, now))
        if is_certain or (is_final and measure in _ASKED and _is_worth_a_look(each)):
            yield Drift(expected.field.name, measure, then, now, is_certain)


def _is_worth_a_look(counts: MeasureCounts) -> bool:
    return counts.excess >= _FEW_DOUBTS or 2 * counts.doubted >= counts.compared


def _compare_whole(expected: Expectation, counts: FieldCounts) -> Iterable[Drift]:
    """Yield what only all pages of a run show: a sparse field without values, one value now, another magnitude."""
    name, then = expected.field.name, expected.counts
    missing, before = Share(counts.pages - counts.filled, counts.pages), expected.get_share("fill")
    is_half = 2 * counts.filled * then.pages < then.filled * counts.pages
    if not expected.is_always and is_half and (is_more(before, missing) or is_all(before, missing)):
        yield Drift(name, "fill", before, missing)
    if len(counts.values) == 1 and not counts.has_many and counts.filled >= _MIN_ONE:
        known = Share(then.values.get(next(iter(counts.values)), 0), then.filled)
        one = Share(counts.filled, counts.filled)
        if (then.has_many or len(then.values) > 1) and (is_more(known, one) or is_all(known, one)):
            yield Drift(name, "distinct", known, one)
    if (median := expected.median) is not None:
        for sign in (1, -1):
            known, now = (_count_beyond(each.magnitudes, median, sign) for each in (then, counts))
            if now.doubted >= _SHIFTED * now.of and is_more(known, now):
                yield Drift(name, "magnitude", known, now)


def _count_beyond(magnitudes: Mapping[int, int], median: int, sign: int) -> Share:
    beyond = sum(count for size, count in magnitudes.items() if size * sign > median * sign)
    return Share(beyond, sum(magnitudes.values()))


def add_baseline(field: ProvenField, counts: FieldCounts) -> ProvenField:
    """Return the field with the counts of a complete run as its baseline."""
    earlier = {url: value for url, value in field.known.items() if url not in counts.known}
    known = dict([*counts.known.items(), *earlier.items()][:_MOST_KNOWN])
    return field.model_copy(update={"baseline": counts.model_copy(update={"known": {}}), "known": known})


def is_more(then: Share, now: Share, looks: int = 1) -> bool:
    """Return whether doubtful pages are more frequent than before; `looks` are the stretches that were looked at."""
    return _has_larger_share(then, now) and find_probability(then, now) * max(looks, 1) < ERROR_RATE


def is_all(then: Share, now: Share) -> bool:
    """Return whether all pages are doubtful, where none or few were before: then fewer pages are enough."""
    is_whole = 0 < now.of == now.doubted
    return is_whole and _has_larger_share(then, now) and find_probability(then, now) < _ERROR_RATE_OF_ALL


def _has_larger_share(then: Share, now: Share) -> bool:
    return now.of > 0 and then.of > 0 and now.doubted * then.of > then.doubted * now.of


def find_probability(then: Share, now: Share) -> float:
    """Return the probability that so few of all doubtful pages are among the earlier ones, if both are of one kind."""
    doubted, pages = then.doubted + now.doubted, then.of + now.of
    whole = _log_choose(pages, doubted)
    total = 0.0
    for count in range(then.doubted, max(doubted - now.of, 0) - 1, -1):
        part = math.exp(_log_choose(then.of, count) + _log_choose(now.of, doubted - count) - whole)
        total += part
        if part < total * 1e-12:
            break
    return total


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
