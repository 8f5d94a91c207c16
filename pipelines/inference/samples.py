"""Samples of tasks as parsed pages, with their metadata."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pipelines.contract.questions import Question
from pipelines.coordination.messages import Sample
from pipelines.extract.document import Document, Element, HtmlElement
from pipelines.fetch import Page
from pipelines.inference.metadata import find_stated, read_metadata
from pipelines.inference.questions import Sample as QuestionSample
from pipelines.inference.reading import find_by_path


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
