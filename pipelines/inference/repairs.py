"""Repairs in a run: the new selectors of drifted fields, and the reports for users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipelines.contract.questions import ITEMS
from pipelines.inference.candidates import make_candidate, make_readings, rank_candidates
from pipelines.inference.drift import Drift
from pipelines.inference.expectations import Expectation, SeenValues
from pipelines.inference.field_counts import Measure
from pipelines.inference.grounding import PageIndex, values_agree
from pipelines.inference.proving import Inference
from pipelines.inference.questions import Sample
from pipelines.inference.reading import get_path, read_field, read_value, select_elements
from pipelines.inference.records import Candidate, ProvenField, ProvenSelectors, Reading
from pipelines.inference.values import get_value_type
from pipelines.models.budget import ModelFailed

MAX_REPAIRS = 2  # of one template and question in a run
_MIN_FIT = 0.8  # of the pages that a repaired field has to read as before
_MOST_CANDIDATES = 4
RepairStep = Literal["confirmed", "candidate", "relocated", "model", "nulls"]
Step = Literal["candidate", "relocated", "model", "nulls", "none"]
_SENTENCES: Mapping[Step, str] = {
    "candidate": "another proven selector reads it now",
    "relocated": "selectors that find its known values again read it now",
    "model": "the model has found selectors for it again",
    "nulls": "where its value is doubtful, it is null with an error",
    "none": "its rows may be wrong",
}
_CHANGES: Mapping[Measure, str] = {
    "fill": "is missing",
    "known": "has another value than before, which the page still has elsewhere,",
    "type": "has another type",
    "disagreement": "has a value that another proven selector does not give",
    "values": "has a value that it did not have before",
    "magnitude": "is of another size",
    "distinct": "has one value again and again",
}


@dataclass(frozen=True, slots=True)
class Repair:
    """The next step for a field: `record` reads it again after `candidate`, `relocated` and `nulls`.

    It is `confirmed` where the pages with known values have these still.
    """

    step: RepairStep
    record: ProvenSelectors


@dataclass(frozen=True, slots=True)
class DriftReport:
    """A field of proven selectors that has drifted in a run, and the step of the repair that helped.

    `version` is that of the selectors since the repair, and `advice` says how to infer them again. `pages` counts
    segments where the selectors read segments.
    """

    record: ProvenSelectors
    drift: Drift
    pages: int
    step: Step
    reason: str = ""
    version: int = 0
    advice: str = ""

    @property
    def is_repaired(self) -> bool:
        """Whether the rows are as they should be."""
        return self.step not in ("nulls", "none")

    @property
    def title(self) -> str:
        """The subject of the check, for people."""
        return f"selectors of '{self.drift.field}' on {self.record.host}"

    def __str__(self) -> str:
        drift, seems = self.drift, "has changed" if self.is_repaired else "seems to have changed"
        reason = f" ({self.reason})" if self.reason else ""
        advice = f"; {self.advice}" if not self.is_repaired and self.advice else ""
        noun = "page" if drift.now.of == 1 else "pages"
        return (
            f"the site {self.record.host} {seems}: '{drift.field}' {_CHANGES[drift.measure]} on {drift.now} {noun} of "
            f"this run, on {drift.then} before; {_SENTENCES[self.step]}{reason}{advice}"
        )


@dataclass(frozen=True, slots=True)
class DoubtfulPage:
    """A page with doubtful values of some fields, with the reasons."""

    sample: Sample
    doubts: Mapping[str, Measure]


@dataclass(slots=True)
class Repaired:
    """The record after a repair; errors of fields that are lost; `inference` is the new result of the model.

    The present selectors of some fields are `confirmed`: by known values, or by the model.
    """

    record: ProvenSelectors
    lost: dict[str, str] = field(default_factory=dict[str, str])
    confirmed: set[str] = field(default_factory=set[str])
    reports: list[DriftReport] = field(default_factory=list[DriftReport])
    inference: Inference | None = None


def repair_record(
    record: ProvenSelectors,
    drifted: Sequence[Drift],
    pages: Sequence[DoubtfulPage],
    infer_anew: Callable[[Sequence[Sample]], Inference] | None,
) -> Repaired:
    """Repair the drifted fields by the cheapest means.

    The model gets at most one question for all of them, about the pages with doubtful values. Doubt that is not
    certain is no news where nothing reads another value.
    """
    done, failure = Repaired(record), ""
    for drift in drifted:
        name = drift.field
        own = [page for page in pages if name in page.doubts]
        if not own:
            continue
        repair = choose_repair(done.record, drift, [page.sample for page in own], infer_anew is not None)
        if repair.step == "confirmed":
            done.confirmed.add(name)
            continue
        step: Step = repair.step
        if step in ("candidate", "relocated"):
            done.record = repair.record
        if step == "model" and infer_anew is not None:
            if done.inference is None and not failure:
                try:
                    done.inference = infer_anew([page.sample for page in pages])
                    failure = done.inference.failure or ""
                except ModelFailed as failed:
                    failure = str(failed)
            if _is_confirmed(done, drift, own):
                done.confirmed.add(name)
                continue
            if not _take_inferred(done, drift, own):
                step = "nulls"
        if step == "nulls" and not drift.is_certain:
            continue
        places = {(page.sample.url, get_path(page.sample.element.node)) for page in own}
        report = DriftReport(record, drift, len(places), step, failure if step == "nulls" else "")
        if step == "nulls":
            done.lost[name] = f"the value of '{name}' is doubtful: it is not as it was before on this site"
        done.reports.append(report)
    return done


def _is_confirmed(done: Repaired, drift: Drift, own: Sequence[DoubtfulPage]) -> bool:
    """Return whether the model reads the values that the present selectors read."""
    record = done.inference.record if done.inference and not done.inference.failure else None
    new = next((each for each in record.fields if each.name == drift.field), None) if record else None
    if new is None or not new.candidates or drift.measure == "fill":
        return False
    old = _find_field(done.record, drift.field)
    pairs = [tuple(read_value(each.candidates[0].reading, page.sample.element) for each in (old, new)) for page in own]
    return all(one and other and values_agree(one, other) for one, other in pairs)


def _take_inferred(done: Repaired, drift: Drift, own: Sequence[DoubtfulPage]) -> bool:
    """Take the new selectors of a field; return whether the model has served the field."""
    inference = done.inference
    if inference is None or inference.failure:
        return False
    if inference.record is None:  # a single page, for which its grounded values count
        return drift.is_certain or any(drift.field in values for values in inference.values)
    found = next((each for each in inference.record.fields if each.name == drift.field), None)
    if found is None or not found.candidates:
        return False
    old = _find_field(done.record, drift.field)
    kept = old.candidates if drift.measure == "fill" else ()
    done.record = _replace_field(done.record, found)
    done.record = replace_candidates(done.record, drift.field, (*found.candidates, *kept))
    return True


def choose_repair(record: ProvenSelectors, drift: Drift, samples: Sequence[Sample], has_model: bool = True) -> Repair:
    """Return the cheapest repair of a field for changed pages: a candidate, its known values, a model, or nulls.

    After `model`, the caller infers from the samples again; `nulls` removes the candidates of the field for this run.
    A pinned record is never changed: its drifted field becomes null. What is not certain is no reason for another
    candidate, which may read something else where the page does not have the field.
    """
    field = _find_field(record, drift.field)
    if not record.pinned:
        other = field.candidates[1:] if drift.measure not in ("disagreement", "known") and drift.is_certain else ()
        expected = Expectation(record, field)
        if _gives_known(field, samples):
            return Repair("confirmed", record)
        fitting = tuple(each for each in other if _fits(expected, each.reading, samples))
        # selectors that find nothing on changed pages may still read the pages that have not changed
        kept = field.candidates if drift.measure == "fill" else ()
        if fitting:
            return Repair("candidate", replace_candidates(record, field.name, (*fitting, *kept)))
        if relocated := _relocate(expected, samples):
            return Repair("relocated", replace_candidates(record, field.name, (*relocated, *kept)))
        if has_model:
            return Repair("model", record)
    return Repair("nulls", replace_candidates(record, field.name, ()))


def _fits(expected: Expectation, reading: Reading, samples: Sequence[Sample]) -> bool:
    """Return whether a reading gives values of changed pages that are like those before."""
    field = expected.field
    if field.name == ITEMS:
        return sum(bool(select_elements(reading, each.element)) for each in samples) >= _MIN_FIT * len(samples)
    read = [(each.element, value) for each in samples if (value := read_value(reading, each.element))]
    if len(read) < max(field.fill * _MIN_FIT, 0.01) * len(samples) or not read:
        return False
    if any(get_value_type(value) != field.type for _, value in read):
        return False
    # of the doubts, those about the values themselves: others compare the selectors that are replaced
    doubts = [expected.find_doubts(element, value, SeenValues()) for element, value in read]
    if any(sum(each.get(why, False) for each in doubts) * 2 > len(read) for why in ("known", "values", "magnitude")):
        return False
    values = {value for _, value in read}
    return field.distinct < 0.5 or len(read) < 2 or len(values) > 1


def _gives_known(field: ProvenField, samples: Sequence[Sample]) -> bool:
    """Return whether the selectors give the known values of two or more pages."""
    pages = [(each.element, known) for each in samples if (known := field.known.get(each.url))]
    found = ((read_field(field, element), known) for element, known in pages)
    return len(pages) > 1 and all(each and values_agree(each.value, known) for each, known in found)


def _relocate(expected: Expectation, samples: Sequence[Sample]) -> tuple[Candidate, ...]:
    """Return candidates that find the known values of two or more pages in their changed markup, and fit the others."""
    pages = [(each.element, known) for each in samples if (known := expected.field.known.get(each.url))]
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
        and _fits(expected, each, samples)
    )


def replace_candidates(record: ProvenSelectors, name: str, candidates: tuple[Candidate, ...]) -> ProvenSelectors:
    """Return the record with these candidates of a field, without duplicates."""
    once: dict[Reading, Candidate] = {}
    for each in candidates:
        once.setdefault(each.reading, each)
    kept = tuple(once.values())[:_MOST_CANDIDATES]
    return _replace_field(record, _find_field(record, name).model_copy(update={"candidates": kept}))


def _find_field(record: ProvenSelectors, name: str) -> ProvenField:
    return next(each for each in record.fields if each.name == name)


def _replace_field(record: ProvenSelectors, found: ProvenField) -> ProvenSelectors:
    fields = tuple(found if each.name == found.name else each for each in record.fields)
    return record.model_copy(update={"fields": fields})
