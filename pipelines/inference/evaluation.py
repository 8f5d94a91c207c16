"""Evaluation: the values that stages with prompts read from labelled pages, counted field by field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipelines.contract.questions import Question
from pipelines.extract.document import Document, Element
from pipelines.fetch import Page
from pipelines.inference.grounding import values_agree
from pipelines.inference.page_reader import Means, PageReader, get_host
from pipelines.inference.prompts import make_question
from pipelines.inference.proving import MAX_SAMPLES, infer
from pipelines.inference.questions import Sample
from pipelines.inference.records import ProvenSelectors
from pipelines.inference.templates import Templates, get_features
from pipelines.models.client import ModelClient


class LabelledPage(BaseModel):
    """A page with its true values by field, null where it lacks one; without a prompt, the fields are the question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(min_length=1)
    html: str
    values: dict[str, str | None] = Field(min_length=1)
    prompt: str | None = None

    @model_validator(mode="after")
    def _check_fields(self) -> LabelledPage:
        if missing := set(self.values).difference(self.question.fields):
            raise ValueError(f"the prompt names no column '{min(missing)}'")
        return self

    @property
    def question(self) -> Question:
        """The question of the prompt."""
        return make_question(self.prompt or f"Extract: {', '.join(self.values)}")


@dataclass(slots=True)
class FieldScore:
    """Counts of a field's values: right ones, wrong ones, and labels without their value."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float:
        """The share of the given values that are right; 1 without any."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """The share of the labels whose value was given; 1 without any."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def add(self, label: str | None, value: str | None) -> None:
        """Count the value of one page."""
        if value is not None and label is not None and values_agree(value, label):
            self.right += 1
            return
        self.wrong += value is not None
        self.missed += label is not None


@dataclass(slots=True)
class Evaluation:
    """The scores by field, and the sentences of pages that no means has served, with their numbers."""

    pages: int = 0
    templates: int = 0
    scores: dict[str, FieldScore] = field(default_factory=dict[str, FieldScore])
    errors: dict[str, int] = field(default_factory=dict[str, int])


def read_labelled_pages(path: Path) -> list[LabelledPage]:
    """Return the pages of a file of JSON Lines, or of one list; raise ValueError for the first that is not valid."""
    pages: list[LabelledPage] = []
    for place, text in _iter_texts(path.read_text()):
        try:
            pages.append(LabelledPage.model_validate(text if isinstance(text, dict) else json.loads(str(text))))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise ValueError(f"{place}: {name + ': ' if name else ''}{first['msg']}") from None
        except ValueError as error:
            raise ValueError(f"{place} is no JSON: {error}") from None
    if not pages:
        raise ValueError("there is no page in it")
    return pages


def _iter_texts(content: str) -> Iterator[tuple[str, object]]:
    """Yield the texts of lines, or the items of a list, with their places."""
    if content.lstrip().startswith("["):
        try:
            items = cast("list[object]", json.loads(content))
        except ValueError as error:
            raise ValueError(f"the list is no JSON: {error}") from None
        yield from ((f"page {number}", each) for number, each in enumerate(items, start=1))
        return
    yield from ((f"line {n}", line) for n, line in enumerate(content.splitlines(), start=1) if line.strip())


def evaluate(
    pages: Sequence[LabelledPage], client: ModelClient | None, proven: Sequence[ProvenSelectors] = ()
) -> Evaluation:
    """Read all pages as a run does, of earlier selectors with `proven` alone; compare the values with the labels."""
    elements = [_parse(page) for page in pages]
    reader = _SetReader(zip(elements, (page.question for page in pages), strict=True), client, proven)
    found = Evaluation(len(pages))
    for page, element in zip(pages, elements, strict=True):
        values = reader.read_values(page.question, element)
        if values.error:
            found.errors[values.error] = found.errors.get(values.error, 0) + 1
        for name, label in page.values.items():
            given = values.found.get(name)
            found.scores.setdefault(name, FieldScore()).add(label, given.value if given else None)
    found.templates = reader.count_templates()
    return found


class _SetReader(PageReader):
    """Reads the pages of one set, whose selectors it infers template by template."""

    def __init__(
        self,
        pages: Iterable[tuple[Element, Question]],
        client: ModelClient | None,
        proven: Sequence[ProvenSelectors],
    ) -> None:
        self._client = client
        hosts = {each.host for each in proven}
        self._proven = {(each.host, each.template, each.prompt_key): each for each in proven}
        self._templates: dict[str, Templates] = {
            host: Templates({each.template: each.features for each in proven if each.host == host}) for host in hosts
        }
        self._groups: dict[tuple[str, str, str], list[Element]] = {}
        self._means: dict[tuple[str, str, str], tuple[Means, Mapping[int, Means]]] = {}
        for element, question in pages:
            self._groups.setdefault(self._find_group(question, element), []).append(element)

    def count_templates(self) -> int:
        """Return the number of templates."""
        return len({(host, template) for host, template, _ in self._groups})

    def find_record(self, question: Question, element: Element) -> ProvenSelectors | None:
        return self._proven.get(self._find_group(question, element))

    def find_means(self, question: Question, element: Element) -> Means:
        if self._client is None:
            return super().find_means(question, element)
        key = self._find_group(question, element)
        if key not in self._means:
            self._means[key] = self._infer(self._client, question, key)
        shared, own = self._means[key]
        return own.get(id(element), shared)

    def _find_group(self, question: Question, element: Element) -> tuple[str, str, str]:
        host = get_host(element)
        templates = self._templates.setdefault(host, Templates())
        return host, templates.assign(get_features(element.document)), question.key

    def _infer(
        self, client: ModelClient, question: Question, key: tuple[str, str, str]
    ) -> tuple[Means, Mapping[int, Means]]:
        elements = self._groups[key][:MAX_SAMPLES]
        samples: list[Sample] = []
        for element in elements:
            stated = self._read_stated(question, element)
            witness = {name: found.value for name, found in stated.items() if found}
            samples.append(Sample(element.document.page.url, element, witness))
        inference = infer(question, key[0], key[1], get_features(elements[0].document), samples, client)
        if inference.failure:
            return Means(error=f"no means serves this: {inference.failure}"), {}
        if inference.record:
            return Means(inference.record), {}
        own = {id(element): Means(values=values) for element, values in zip(elements, inference.values, strict=True)}
        return Means(), own


def _parse(labelled: LabelledPage) -> Element:
    body = labelled.html.encode()
    return Document(
        Page(labelled.url, labelled.url, 200, None, "text/html", "utf-8", body, datetime.now(UTC)), "html"
    ).root
