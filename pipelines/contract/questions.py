"""Questions about pages and their answers, between the stages that ask and the means that answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from pipelines.extract.document import Element

Kind = Literal["values", "links", "segments"]
ITEMS = "items"  # the one field of links and segments


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt with the names of its fields; questions for links and segments have no fields.

    `asked` has the prompt's own words by field, and `scope` is the path of tags to the segments in question, empty for
    whole pages.
    """

    prompt: str
    fields: tuple[str, ...] = ()
    kind: Kind = "values"
    asked: tuple[str, ...] = ()
    scope: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that are inferred."""
        return self.fields if self.kind == "values" else (ITEMS,)

    @property
    def key(self) -> str:
        """A name of the question that spaces do not change."""
        scope = [self.scope] if self.scope else []
        text = json.dumps([" ".join(self.prompt.split()), self.fields, self.kind, *scope])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Found:
    """A value with its evidence: the text that it was read from, the path of its element, the page, and the means."""

    value: str
    text: str
    path: str
    url: str
    method: str


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a page by field, null where it lacks one; the `error` where no means serves some of the fields."""

    found: Mapping[str, Found | None]
    error: str | None = None


class QuestionReader(Protocol):
    """Answers questions about pages."""

    def read_values(self, question: Question, element: Element) -> Values:
        """Return the values for a question; raise AnswerPending."""
        ...

    def read_items(self, question: Question, element: Element) -> tuple[list[Element], str | None]:
        """Return the links or segments for a question, or an error; raise AnswerPending."""
        ...
