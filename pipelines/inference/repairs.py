"""Repairs in a run: the new selectors of drifted fields, and the reports for users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pipelines.inference.drift import Drift, Measure, choose_repair, replace_candidates
from pipelines.inference.proving import Inference
from pipelines.inference.questions import Sample
from pipelines.inference.reading import get_path
from pipelines.inference.records import ProvenField, ProvenSelectors
from pipelines.models import ModelFailed

MAX_REPAIRS = 2  # of one template and question in a run
MIN_LOST = 3  # pages without a value that fail the run
Step = Literal["candidate", "relocated", "model", "nulls", "none"]
_SENTENCES: Mapping[Step, str] = {
    "candidate": "another proven selector reads it now",
    "relocated": "selectors that find its known values again read it now",
    "model": "the model has found selectors for it again",
    "nulls": "where its value is doubtful, it is null with an error",
    "none": "its rows may be wrong",
}


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
    def is_fault(self) -> bool:
        """Whether the rows are not as they should be, so that the run fails."""
        return self.step == "none" or (self.step == "nulls" and self.pages >= MIN_LOST)

    @property
    def title(self) -> str:
        """The subject of the check, for people."""
        return f"selectors of '{self.drift.field}' on {self.record.host}"

    def __str__(self) -> str:
        drift, pages = self.drift, "1 page" if self.pages == 1 else f"{self.pages:,} pages"
        reason = f" ({self.reason})" if self.reason else ""
        advice = f"; {self.advice}" if self.is_fault and self.advice else ""
        return (
            f"the site {self.record.host} has changed: the {drift.measure} of '{drift.field}' was {drift.expected:.2f} "
            f"when its selectors were proven, and is {drift.found:.2f} on {pages} of this run; "
            f"{_SENTENCES[self.step]}{reason}{advice}"
        )


@dataclass(frozen=True, slots=True)
class DoubtfulPage:
    """A page with doubtful values of some fields, with the reasons."""

    sample: Sample
    doubts: Mapping[str, Measure]


@dataclass(slots=True)
class Repaired:
    """The record after a repair; errors of fields that are lost; `inference` is the new result of the model."""

    record: ProvenSelectors
    lost: dict[str, str] = field(default_factory=dict[str, str])
    reports: list[DriftReport] = field(default_factory=list[DriftReport])
    inference: Inference | None = None


def repair_record(
    record: ProvenSelectors,
    doubted: Mapping[str, float],
    pages: Sequence[DoubtfulPage],
    infer_anew: Callable[[Sequence[Sample]], Inference] | None,
) -> Repaired:
    """Repair the doubted fields by the cheapest means; the shares are those of pages that are as before.

    The model gets at most one question for all of them, about the pages with doubtful values.
    """
    done, failure = Repaired(record), ""
    for name, share in doubted.items():
        own = [page for page in pages if name in page.doubts]
        if not own:
            continue
        drift = Drift(name, own[0].doubts[name], 1.0, share)
        repair = choose_repair(done.record, drift, [page.sample for page in own], infer_anew is not None)
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
            if not _take_inferred(done, drift):
                step = "nulls"
        places = {(page.sample.url, get_path(page.sample.element.node)) for page in own}
        report = DriftReport(record, drift, len(places), step, failure if step == "nulls" else "")
        if step == "nulls":
            done.lost[name] = f"the value of '{name}' is doubtful, because the site has changed since it was proven"
        done.reports.append(report)
    return done


def _take_inferred(done: Repaired, drift: Drift) -> bool:
    """Take the new selectors of a field; return whether the model has served the field."""
    inference = done.inference
    if inference is None or inference.failure:
        return False
    if inference.record is None:  # a single page, for which its grounded values count
        return True
    found = next((each for each in inference.record.fields if each.name == drift.field), None)
    if found is None or not found.candidates:
        return False
    old = next(each for each in done.record.fields if each.name == drift.field)
    kept = old.candidates if drift.measure == "fill" else ()
    done.record = _replace_field(done.record, found)
    done.record = replace_candidates(done.record, drift.field, (*found.candidates, *kept))
    return True


def _replace_field(record: ProvenSelectors, found: ProvenField) -> ProvenSelectors:
    fields = tuple(found if each.name == found.name else each for each in record.fields)
    return record.model_copy(update={"fields": fields})
