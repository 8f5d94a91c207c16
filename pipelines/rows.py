"""Rows as a pass sees them in a Python worker: values, the page and the element that stages read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from pipelines.fetch import Page
from pipelines.html import Document, Element

Ordinal = tuple[int, ...]


class Link(NamedTuple):
    """A canonical URL to fetch and the text of the element that it came from; without a URL, why there is none."""

    url: str | None
    text: str | None
    error: str | None = None


@dataclass(frozen=True)
class Fetched:
    """What is known of the page that a row stands on; shared by all rows of that page, parsed once."""

    url: str | None = None
    requested_url: str | None = None
    status: int | None = None
    error: str | None = None
    fetched_at: datetime | None = None
    page: Page | None = None

    @classmethod
    def of(cls, page: Page) -> Fetched:
        """The record of `page`; a page that failed leaves its status and error, and nothing to read."""
        readable = page if page.ok else None
        return cls(page.url, page.requested_url, page.status, page.error, page.fetched_at, readable)

    @cached_property
    def root(self) -> Element | None:
        """The page's root element; None where there is no page."""
        return Document(self.page).root if self.page else None


NOTHING = Fetched()


@dataclass(frozen=True, slots=True)
class Row:
    values: dict[str, object]
    ordinal: Ordinal
    fetched: Fetched = NOTHING
    element: Element | None = None
    link_text: str | None = None
    depth: int | None = None

    def value(self, name: str) -> object:
        """The value of a column, or of an engine column that no stage wrote."""
        return self.values[name] if name in self.values else self.engine_values().get(name)

    def engine_values(self) -> dict[str, object]:
        fetched = self.fetched
        return {
            "_url": fetched.url,
            "_requestedUrl": fetched.requested_url,
            "_status": fetched.status,
            "_error": fetched.error,
            "_depth": self.depth,
            "_linkText": self.link_text,
            "_ordinal": self.ordinal,
            "_fetchedAt": fetched.fetched_at,
        }

    def with_values(self, added: dict[str, object]) -> Row:
        values = {**self.values, **added}
        return Row(values, self.ordinal, self.fetched, self.element, self.link_text, self.depth)

    def child(self, position: int, element: Element | None) -> Row:
        """A row that comes from this one, standing on another element of its page."""
        return Row(self.values, (*self.ordinal, position), self.fetched, element, self.link_text, self.depth)
