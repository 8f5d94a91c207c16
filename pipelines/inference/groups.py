"""The samples of one template and question, and the findings of an inference for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pipelines.contract.questions import Found, Question
from pipelines.coordination.messages import Learned, Member, Sample
from pipelines.extract.document import Document, Element, HtmlElement
from pipelines.fetch import Page
from pipelines.inference.items import PageItems
from pipelines.inference.metadata import find_stated, read_metadata
from pipelines.inference.proving import MAX_CALLS
from pipelines.inference.questions import Sample as QuestionSample
from pipelines.inference.reading import find_by_path
from pipelines.inference.records import ProvenSelectors
from pipelines.models.budget import Budget


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The unproven findings of a model on one page, which serve only this page."""

    values: Mapping[str, Found]
    items: PageItems = field(default_factory=PageItems)


@dataclass(slots=True)
class SampleGroup:
    """The samples of one template and question that wait, and those that were read without a proof.

    An inference reads the first `taken` of those that wait. All inferences together have five calls.
    """

    question: Question
    host: str
    template: str
    features: tuple[int, ...]
    samples: list[tuple[Member, Sample]] = field(default_factory=list[tuple[Member, Sample]])
    taken: int = 0
    read: list[tuple[Sample, PageAnswer]] = field(default_factory=list[tuple[Sample, PageAnswer]])
    fields: tuple[str, ...] = ()  # that the model has named
    calls: Budget = field(default_factory=lambda: Budget("one template", MAX_CALLS))


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an inference for the pages of its template, or for single samples.

    The doubts of `usual` and of `confirmed` fields and measures are not questioned; those of the latter are none.
    """

    record: ProvenSelectors | None = None
    error: str = ""
    pages: Sequence[PageAnswer] = ()
    version: int = 0
    lost: Mapping[str, str] = field(default_factory=dict[str, str])
    usual: frozenset[tuple[str, str]] = frozenset()
    confirmed: frozenset[tuple[str, str]] = frozenset()


def locate_sample(sample: Sample) -> tuple[str, str, bytes]:
    """Return the address, path and body that samples of one place share."""
    return sample.url, sample.path, sample.body


def make_learned(group: SampleGroup, result: Result, answers: Mapping[int, PageAnswer]) -> Learned:
    """Return the message to a task about its samples, by their numbers."""
    return Learned(
        host=group.host,
        question=group.question.key,
        template=group.template,
        features=group.features,
        record=result.record.to_json() if result.record else "",
        error=result.error,
        values={
            number: {
                name: (value.value, value.text, value.path, value.url, value.method)
                for name, value in answer.values.items()
            }
            for number, answer in answers.items()
        },
        items={number: ([*answer.items.paths], answer.items.missing) for number, answer in answers.items()},
        answered=[*answers],
        version=result.version,
        lost=dict(result.lost),
        usual=sorted(result.usual | result.confirmed),
    )


def make_samples(question: Question, samples: Sequence[Sample]) -> list[QuestionSample]:
    """Return the samples with their elements."""
    elements = [parse_sample(each) for each in samples]
    return [
        QuestionSample(sample.url, element, _read_witness(question, element))
        for sample, element in zip(samples, elements, strict=True)
    ]


def _read_witness(question: Question, element: Element) -> dict[str, str]:
    metadata = read_metadata(element)
    asked = question.asked or question.fields
    stated = {name: find_stated(metadata, (words, name)) for name, words in zip(question.fields, asked, strict=True)}
    return {name: found.value for name, found in stated.items() if found is not None}


def parse_sample(sample: Sample) -> Element:
    """Return the element that a sample is about."""
    page = Page(sample.url, sample.url, 200, None, sample.content_type, sample.charset, sample.body, datetime.now(UTC))
    root = Document(page).root
    return find_by_path(root, sample.path) or root if isinstance(root, HtmlElement) and sample.scope else root
