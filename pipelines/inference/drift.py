"""Drift: values of a run against those at proving time, and the repair of a field that has drifted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from pipelines.extract.document import Element
from pipelines.inference.candidates import make_candidate, make_readings, rank_candidates
from pipelines.inference.grounding import PageIndex, values_agree
from pipelines.inference.questions import ITEMS, Sample
from pipelines.inference.reading import Found, find_disagreement, read_value, select_elements
from pipelines.inference.records import Candidate, ProvenField, ProvenSelectors, Reading
from pipelines.inference.values import get_value_type

Measure = Literal["fill", "type", "length", "distinct", "disagreement"]

_MIN_PAGES = 5  # fewer say nothing
_RECENT = 20  # pages; a change half-way is seen in them before it is seen in all
_MAX_DISTINCT = 64
_LENGTH_FACTOR = 4.0
_MAX_DISAGREEMENT = 0.2
_MIN_FIT = 0.8  # of the pages that a repaired field has to read as before
_ALWAYS = 0.95  # of the pages had the field at proving time: then a page without it is doubtful
_FEW_DOUBTS = 3
_MOST_CANDIDATES = 4


@dataclass(frozen=True, slots=True)
class Drift:
    """A field whose values are not as they were when it was proven."""

    field: str
    measure: Measure
    expected: float
    found: float


@dataclass(frozen=True, slots=True)
class Repair:
    """The next step for a field: `record` reads it again after `candidate`, `relocated` and `nulls`."""

    step: Literal["candidate", "relocated", "model", "nulls"]
    record: ProvenSelectors


class FieldCounts(BaseModel):
    """Aggregates of one field over some pages; they can be added."""

    model_config = ConfigDict(extra="forbid")
    pages: int = 0
    filled: int = 0
    of_type: int = 0
    length: int = 0
    seen: set[int] = set()
    compared: int = 0
    disagreed: int = 0
    doubted: int = 0
    since: int = 0  # pages since the first doubt, that page included

    def add(self, field: ProvenField, value: str | None, disagrees: bool | None, doubt: Measure | None) -> None:
        """Add the value of a page."""
        self.pages += 1
        self.doubted += doubt is not None
        self.since += self.doubted > 0
        if value:
            self.filled += 1
            self.of_type += get_value_type(value) == field.type
            self.length += len(value)
            if len(self.seen) < _MAX_DISTINCT:
                self.seen.add(int.from_bytes(hashlib.blake2b(value.encode(), digest_size=6).digest()))
        if disagrees is not None:
            self.compared += 1
            self.disagreed += disagrees

    def merge(self, other: FieldCounts) -> None:
        """Add the pages of another task."""
        for name in ("pages", "filled", "of_type", "length", "compared", "disagreed", "doubted", "since"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.seen |= set(sorted(other.seen)[: max(_MAX_DISTINCT - len(self.seen), 0)])


class RunStatistics(BaseModel):
    """Aggregates of a run for one record: of all pages, and of the last ones.

    Leave out pages that are blocked or not there: they are no change of the template.
    """

    model_config = ConfigDict(extra="forbid")
    total: dict[str, FieldCounts] = {}
    recent: dict[str, FieldCounts] = {}
    before: dict[str, FieldCounts] = {}

    def observe(
        self, record: ProvenSelectors, element: Element, values: Mapping[str, Found | None]
    ) -> dict[str, Measure]:
        """Add the values of a page; return the fields whose values are doubtful, and why."""
        doubts: dict[str, Measure] = {}
        for field in record.fields:
            if not field.candidates or field.name not in values:
                continue
            found, disagrees = values[field.name], find_disagreement(field, element)
            if self.recent.setdefault(field.name, FieldCounts()).pages >= _RECENT:
                self.before[field.name] = self.recent.pop(field.name)
            if (doubt := _find_doubt(field, found, disagrees)) is not None:
                doubts[field.name] = doubt
            for counts in (self.total, self.recent):
                counts.setdefault(field.name, FieldCounts()).add(
                    field, found.value if found else None, disagrees, doubt
                )
        return doubts

    def merge(self, other: RunStatistics) -> None:
        """Add the pages of another task; the last ones are then those of both."""
        for name in ("total", "recent", "before"):
            mine: dict[str, FieldCounts] = getattr(self, name)
            for field, counts in getattr(other, name).items():
                mine.setdefault(field, FieldCounts()).merge(counts)

    def to_json(self) -> str:
        """Return the statistics as JSON."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the statistics of a JSON text."""
        return cls.model_validate_json(text)


def find_drift(record: ProvenSelectors, statistics: RunStatistics) -> list[Drift]:
    """Return the fields whose values have changed, in all pages of the run or in its last ones."""
    found: dict[str, Drift] = {}
    for field in record.fields:
        for counts in (statistics.total, statistics.before, statistics.recent):
            if field.candidates and (each := counts.get(field.name)) is not None and each.pages >= _MIN_PAGES:
                for drift in _compare(field, each):
                    found.setdefault(field.name, drift)
    return [*found.values()]


def find_doubted(record: ProvenSelectors, statistics: RunStatistics, is_final: bool) -> dict[str, float]:
    """Return the fields with too many doubtful values, with the share of pages that are as before.

    Most pages since the first doubtful one are doubtful then. Before the pages have ended, it takes more of them.
    """
    found: dict[str, float] = {}
    for field in record.fields:
        counts = statistics.total.get(field.name, FieldCounts())
        share = counts.doubted / (counts.since or 1)
        many = counts.doubted >= _MIN_PAGES and share >= 0.8
        some = (counts.doubted >= _FEW_DOUBTS and share >= 0.5) or (0 < counts.doubted >= counts.pages / 2)
        if field.candidates and (many or (is_final and some)):
            found[field.name] = 1 - share
    return found


def _find_doubt(field: ProvenField, found: Found | None, disagrees: bool | None) -> Measure | None:
    if found is None:
        return "fill" if field.fill >= _ALWAYS else None
    if field.type != "text" and get_value_type(found.value) != field.type:
        return "type"
    return "disagreement" if disagrees else None


def _compare(field: ProvenField, counts: FieldCounts) -> Iterable[Drift]:
    fill = counts.filled / counts.pages
    if fill < field.fill / 2:
        yield Drift(field.name, "fill", field.fill, fill)
    if counts.filled < _MIN_PAGES:
        return
    if (share := counts.of_type / counts.filled) < 0.5:
        yield Drift(field.name, "type", 1.0, share)
    length = counts.length / counts.filled
    if field.length and not field.length / _LENGTH_FACTOR <= length <= max(field.length, 8) * _LENGTH_FACTOR:
        yield Drift(field.name, "length", field.length, length)
    distinct = len(counts.seen) / min(counts.filled, _MAX_DISTINCT)
    if counts.filled >= 2 * _MIN_PAGES and distinct < field.distinct / 4:
        yield Drift(field.name, "distinct", field.distinct, distinct)
    if counts.compared >= _MIN_PAGES and (share := counts.disagreed / counts.compared) > _MAX_DISAGREEMENT:
        yield Drift(field.name, "disagreement", 0.0, share)


def choose_repair(record: ProvenSelectors, drift: Drift, samples: Sequence[Sample], has_model: bool = True) -> Repair:
    """Return the cheapest repair of a field for changed pages: a candidate, its known values, a model, or nulls.

    After `model`, the caller infers from the samples again; `nulls` removes the candidates of the field for this run.
    A pinned record is never changed: its drifted field becomes null.
    """
    field = next(each for each in record.fields if each.name == drift.field)
    if not record.pinned:
        other = field.candidates[1:] if drift.measure != "disagreement" else ()
        fitting = tuple(each for each in other if _fits(field, each.reading, samples))
        # selectors that find nothing on changed pages may still read the pages that have not changed
        kept = field.candidates if drift.measure == "fill" else ()
        if fitting:
            return Repair("candidate", replace_candidates(record, field.name, (*fitting, *kept)))
        if relocated := _relocate(field, samples):
            return Repair("relocated", replace_candidates(record, field.name, (*relocated, *kept)))
        if has_model:
            return Repair("model", record)
    return Repair("nulls", replace_candidates(record, field.name, ()))


def _fits(field: ProvenField, reading: Reading, samples: Sequence[Sample]) -> bool:
    """Return whether a reading gives values of changed pages that are like those at proving time."""
    if field.name == ITEMS:
        return sum(bool(select_elements(reading, each.element)) for each in samples) >= _MIN_FIT * len(samples)
    values = [value for each in samples if (value := read_value(reading, each.element))]
    if len(values) < max(field.fill * _MIN_FIT, 0.01) * len(samples) or not values:
        return False
    if any(get_value_type(value) != field.type for value in values):
        return False
    return field.distinct < 0.5 or len(values) < 2 or len(set(values)) > 1


def _relocate(field: ProvenField, samples: Sequence[Sample]) -> tuple[Candidate, ...]:
    """Return candidates that find the known values of two or more pages in their changed markup, and fit the others."""
    pages = [(each.element, known) for each in samples if (known := field.known.get(each.url))]
    if len(pages) < 2:
        return ()
    element, value = pages[0]
    grounded = PageIndex(element).ground(value)
    places = grounded.locations if grounded else ()
    readings = dict.fromkeys(reading for place in places for reading in make_readings(place, element))
    return rank_candidates(
        make_candidate(each, len(pages))
        for each in readings
        if all((found := read_value(each, page)) and values_agree(found, known) for page, known in pages)
        and _fits(field, each, samples)
    )


def replace_candidates(record: ProvenSelectors, name: str, candidates: tuple[Candidate, ...]) -> ProvenSelectors:
    """Return the record with these candidates of a field, without duplicates."""
    once: dict[Reading, Candidate] = {}
    for each in candidates:
        once.setdefault(each.reading, each)
    changed = {"candidates": tuple(once.values())[:_MOST_CANDIDATES]}
    fields = (each.model_copy(update=changed) if each.name == name else each for each in record.fields)
    return record.model_copy(update={"fields": tuple(fields)})
