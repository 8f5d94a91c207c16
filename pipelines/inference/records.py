"""Proven selectors as plain data, which is stored, shown, edited, and replayed without a model."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from pipelines.contract.questions import Kind
from pipelines.extract.selectors import SelectorError, compile_selector
from pipelines.inference.field_counts import FieldCounts

MAX_SELECTOR = 300  # characters
SHOWN = ("selector", "score", "samples")
StepAction = Literal["click", "type", "select", "scroll_to_bottom", "wait"]
ValueType = Literal["number", "text", "url"]
_PATTERNS = re.compile(r":matches|~=|^\s*\$", re.IGNORECASE)  # regular expressions and JSONPath


def _check_selector(text: str) -> str:
    try:
        compile_selector(text)
    except SelectorError as error:
        raise ValueError(f"not a selector: {error}") from None
    if _PATTERNS.search(text):
        raise ValueError("a selector of inference has no regular expression")
    return text


class Record(BaseModel, frozen=True):
    """Plain data with names in camel case in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Reading(Record, frozen=True):
    """One way to read a value: the first match of a selector, by a method, after a literal text."""

    selector: Annotated[str, Field(max_length=MAX_SELECTOR), AfterValidator(_check_selector)]
    method: Annotated[str, Field(pattern=r"^(text|href|src|attr:[a-zA-Z][\w:.-]{0,60})$")] = "text"
    after: Annotated[str, Field(max_length=80)] = ""


class Candidate(Record, frozen=True):
    """A reading with its stability, from 0 to 100, and the pages that proved it.

    `exact`: its selector names the element itself, not only one around it.
    """

    reading: Reading
    stability: int
    exact: bool = False
    agreed: int = 0  # pages on which it gave the known value
    extras: int = 0  # pages without a known value on which it gave one


class ProvenField(Record, frozen=True):
    """The candidates of a field, the best first, and figures of its values on the pages that proved it.

    A field without candidates is unproven: it is null in rows, and no run asks for it again. `known` are values by the
    URL of their page, to find them again on a page that has changed. `baseline` has the counts of a complete run
    without drift, which later runs are compared with.
    """

    name: str
    candidates: tuple[Candidate, ...] = ()
    pages: int = 0  # held-out pages that have the field
    fill: float = 0.0
    type: ValueType = "text"
    length: float = 0.0
    distinct: float = 0.0
    known: dict[str, str] = {}
    baseline: FieldCounts | None = None

    @model_validator(mode="before")
    @classmethod
    def _leave_out_shown(cls, data: Any) -> Any:
        """Leave out the text around a field: clients send back what they were sent."""
        if not isinstance(data, dict):
            return data
        return {name: each for name, each in cast("dict[str, Any]", data).items() if name not in SHOWN}

    def describe(self) -> dict[str, Any]:
        """Return the field as plain data with its selector, the score of that, and the values that it has read."""
        best = self.candidates[0] if self.candidates else None
        samples = [{"url": url, "value": value} for url, value in self.known.items()]
        shown = (best.reading.selector if best else None, best.stability if best else None, samples)
        return {**self.model_dump(mode="json", by_alias=True), **dict(zip(SHOWN, shown, strict=True))}


class RecordedStep(Record, frozen=True):
    """A trace action that performs a part of a prompt in the browser."""

    action: StepAction
    params: dict[str, Annotated[str, Field(max_length=MAX_SELECTOR)] | float] = {}


class RecordedUsage(Record, frozen=True):
    """The cost of the inference."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0


class ProvenSelectors(Record, frozen=True):
    """Selectors for one prompt and one template of a host.

    For links and segments there is one field, named `items`. For steps, which the browser performs, there are no
    fields.
    """

    host: str
    template: str
    features: tuple[int, ...] = ()
    prompt: str
    prompt_key: str
    kind: Kind | Literal["steps"] = "values"
    fields: tuple[ProvenField, ...] = ()
    steps: tuple[RecordedStep, ...] = ()
    sample_urls: tuple[str, ...] = ()
    model: str = ""
    usage: RecordedUsage = RecordedUsage()
    pinned: bool = False
    proven_at: datetime

    @property
    def key(self) -> str:
        """A name that is the same for all records of one host, template and prompt."""
        return make_key(self.host, self.template, self.prompt_key)

    @property
    def unproven(self) -> tuple[str, ...]:
        """The fields without proven candidates."""
        return tuple(field.name for field in self.fields if not field.candidates)

    def to_json(self) -> str:
        """Return the record as JSON."""
        return self.model_dump_json(by_alias=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the record of a JSON text; raises pydantic's ValidationError, a ValueError."""
        return cls.model_validate_json(text)


def make_key(host: str, template: str, prompt_key: str) -> str:
    """Return the name of a host, template and prompt."""
    return hashlib.blake2b("\n".join((host, template, prompt_key)).encode(), digest_size=12).hexdigest()
