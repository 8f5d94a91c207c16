"""Answers to questions about pages, by the cheapest means: a page's metadata, proven selectors, a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from selectolax.lexbor import LexborNode

from pipelines.contract.questions import ITEMS, Found, Question, Values
from pipelines.extract.document import Element, HtmlElement
from pipelines.inference.items import PageItems
from pipelines.inference.metadata import find_stated, read_metadata
from pipelines.inference.reading import find_by_path, read_items, read_values
from pipelines.inference.records import ProvenSelectors

NO_MODEL = (
    "no means serves this: the page does not describe itself, there are no proven selectors, and there is no model; "
    "add a credential of TOGETHERAI, OPENAI or ANTHROPIC"
)
NOT_PROVEN = (
    "no selector for this prompt is proven on pages of this kind; change the prompt, "
    "or delete its proven selectors, and the next run asks again"
)
ABSENT = "the page says that it does not exist, although the server answered with success"
_MAX_HEADING = 100  # characters
_PARTS = re.compile(r"\s[|\u2013\u2014:-]\s|\|")
_MISSING = r"not (?:be )?found|(?:does not|doesn.t|no longer) exists?|no longer available|nicht gefunden"
_SIGNS = re.compile(rf"404|{_MISSING}", re.IGNORECASE)
_WHOLE = re.compile(
    r"\W*(?:error|oops|sorry|http|fehler|\W)*(?:404)?\W*(?:the |this |that |your |die |diese )*(?:requested )?"
    r"(?:page|product|item|article|content|document|offer|seite)?(?: you[\w' ]{0,40})?\W*"
    rf"(?:was|is|could|can|has|wurde)?\s*(?:{_MISSING})?\W*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Means:
    """The means for a question about a page: selectors, or else the page's own values or items, or else an error.

    A repair of the selectors in a run gives them a new `version`. Fields that could not be repaired are `lost`, with
    their errors; the doubts of `usual` fields and measures are not questioned.
    """

    record: ProvenSelectors | None = None
    values: Mapping[str, Found] = field(default_factory=dict[str, Found])
    items: PageItems = field(default_factory=PageItems)
    error: str | None = None
    version: int = 0
    lost: Mapping[str, str] = field(default_factory=dict[str, str])
    usual: frozenset[tuple[str, str]] = frozenset()


class PageReader:
    """Reads pages by their metadata; `find_record` and `find_means` add other means."""

    def find_record(self, question: Question, element: Element) -> ProvenSelectors | None:
        """Return the proven selectors for a page or segment, if they are at hand."""
        return None

    def find_means(self, question: Question, element: Element) -> Means:
        """Return the means for a page or segment; raise AnswerPending."""
        return Means(error=NO_MODEL)

    def check_values(
        self, question: Question, record: ProvenSelectors, element: Element, found: Mapping[str, Found | None]
    ) -> Values:
        """Return the values of proven selectors unless they are doubtful; raise AnswerPending."""
        return Values(found)

    def read_values(self, question: Question, element: Element) -> Values:
        """Return the values for a question; raise AnswerPending."""
        question = limit_to_segments(question, element)
        if (record := self.find_record(question, element)) is not None:
            return self.check_values(question, record, element, self._read_proven(question, record, element))
        stated = self._read_stated(question, element)
        if question.fields and None not in stated.values():
            return Values(stated)
        if says_absent(element):
            return Values(stated, ABSENT)
        means = self.find_means(question, element)
        if means.record is not None:
            found = self._read_proven(question, means.record, element)
            return self.check_values(question, means.record, element, found)
        if question.fields:
            found = {name: stated[name] or means.values.get(name) for name in question.fields}
        else:
            found = dict(means.values) or dict(read_metadata(element))
        # without an error, the model has looked for the values of this page
        return Values(found, means.error if question.fields or not found else None)

    def read_items(self, question: Question, element: Element) -> tuple[list[Element], str | None]:
        """Return the links or segments for a question, or an error; raise AnswerPending."""
        question = limit_to_segments(question, element)
        means = self.find_means(question, element)
        if means.record is None:
            root = element.document.root
            found = (find_by_path(root, path) for path in means.items.paths) if isinstance(root, HtmlElement) else ()
            return [each for each in found if each is not None], means.error or _describe_missing(means.items)
        if means.record.unproven:
            return [], NOT_PROVEN
        items = read_items(means.record, element)
        shown = Found(ITEMS, "", "", element.document.page.url, "selector") if items else None
        return items, self.check_values(question, means.record, element, {ITEMS: shown}).error

    def _read_proven(self, question: Question, record: ProvenSelectors, element: Element) -> Mapping[str, Found | None]:
        """Return the values by proven selectors, and for other fields those of the page's metadata."""
        found = read_values(record, element)
        if None not in found.values():
            return found
        stated = self._read_stated(question, element)
        return {name: value or stated.get(name) for name, value in found.items()}

    def _read_stated(self, question: Question, element: Element) -> dict[str, Found | None]:
        if not question.fields:
            return {}
        metadata = read_metadata(element)
        asked = question.asked or question.fields
        return {name: find_stated(metadata, (words, name)) for name, words in zip(question.fields, asked, strict=True)}


def _describe_missing(items: PageItems) -> str | None:
    if not items.missing:
        return None
    return f"the page does not have {items.missing} of the first items that the model named"


def limit_to_segments(question: Question, element: Element) -> Question:
    """Return the question about segments at the same path of tags; about whole pages it stays as it is."""
    if element.is_page or element.node is None:
        return question
    tags: list[str] = []
    node: LexborNode | None = element.node
    while node is not None and node.is_element_node:
        tags.append(node.tag or "")
        node = node.parent
    return replace(question, scope="/".join(reversed(tags)))


def get_host(element: Element) -> str:
    """Return the host of an element's page."""
    return urlsplit(element.document.page.url).hostname or ""


def says_absent(element: Element) -> bool:
    """Return whether the title or main heading of a page is nothing but the sentence that it was not found."""
    if not element.is_page:
        return False
    texts = [each.text() for each in (element.first("h1"), element.first("title")) if each is not None]
    return any(_is_absence(part) for text in texts for part in _PARTS.split(text[:_MAX_HEADING]))


def _is_absence(text: str) -> bool:
    return _SIGNS.search(text) is not None and _WHOLE.fullmatch(text) is not None
