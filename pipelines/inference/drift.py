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
from pipelines.inference.questions import Sample
from pipelines.inference.reading import Found, find_disagreement, read_value
from pipelines.inference.records import Candidate, ProvenField, ProvenSelectors, Reading
from pipelines.inference.values import get_value_type

Measure = Literal["fill", "type", "length", "distinct", "disagreement"]

_MIN_PAGES = 5  # fewer say nothing
_RECENT = 20  # pages; a change half-way is seen in them before it is seen in all
_MAX_DISTINCT = 64
_LENGTH_FACTOR = 4.0
_MAX_DISAGREEMENT = 0.2
_MIN_FIT = 0.8  # of the pages that a repaired field has to read as before


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

    def add(self, field: ProvenField, value: str | None, disagrees: bool | None) -> None:
        """Add the value of a page."""
        self.pages += 1
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
        for name in ("pages", "filled", "of_type", "length", "compared", "disagreed"):
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

    def observe(self, record: ProvenSelectors, element: Element, values: Mapping[str, Found | None]) -> None:
        """Add the values of a page, and whether the candidates of each field agree on it."""
        for field in record.fields:
            if not field.candidates or field.name not in values:
                continue
            found, disagrees = values[field.name], find_disagreement(field, element)
            if self.recent.setdefault(field.name, FieldCounts()).pages >= _RECENT:
                self.before[field.name] = self.recent.pop(field.name)
            for counts in (self.total, self.recent):
                counts.setdefault(field.name, FieldCounts()).add(field, found.value if found else None, disagrees)

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

    After `model`, the caller infers anew from the samples; `nulls` removes the candidates of the field for this run.
    A pinned record is never changed: its drifted field becomes null.
    """
    field = next(each for each in record.fields if each.name == drift.field)
    if not record.pinned:
        other = field.candidates[1:] if drift.measure != "disagreement" else ()
        fitting = tuple(each for each in other if _fits(field, each.reading, samples))
        if fitting:
            return Repair("candidate", _replace(record, field, fitting))
        if relocated := _relocate(field, samples):
            return Repair("relocated", _replace(record, field, relocated))
        if has_model:
            return Repair("model", record)
    return Repair("nulls", _replace(record, field, ()))


def _fits(field: ProvenField, reading: Reading, samples: Sequence[Sample]) -> bool:
    """Return whether a reading gives values of changed pages that are like those at proving time."""
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


def _replace(record: ProvenSelectors, field: ProvenField, candidates: tuple[Candidate, ...]) -> ProvenSelectors:
    changed = field.model_copy(update={"candidates": candidates})
    fields = tuple(changed if each.name == field.name else each for each in record.fields)
    return record.model_copy(update={"fields": fields})
