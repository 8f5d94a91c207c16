"""Rows as a pass sees them in a Python worker: values, the page and the element that stages read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from pipelines.extract import Document, Element
from pipelines.fetch import Page
from pipelines.fetch.urls import origin
from pipelines.language.columns import ENGINE_COLUMNS

_log = logging.getLogger(__name__)
Ordinal = tuple[int, ...]


class Link(NamedTuple):
    """A canonical URL to fetch and the text of the element that it came from; without a URL, why there is none."""

    url: str | None
    text: str | None
    error: str | None = None


@dataclass(eq=False)  # not frozen, nor is Row, though no stage changes them: that would cost each five times as much
class Fetched:
    """What is known of the page that a row stands on; shared by all rows of that page, parsed once."""

    url: str | None = None
    requested_url: str | None = None
    status: int | None = None
    error: str | None = None
    fetched_at: datetime | None = None
    page: Page | None = None
    root: Element | None = None  # of the page

    @classmethod
    def from_page(cls, page: Page) -> Fetched:
        """The record of `page`; a page that failed leaves its status and error, and nothing to read."""
        if not page.ok:
            error = page.error or f"the server answered {page.status}"
        else:
            try:
                root = Document(page).root
                return cls(page.url, page.requested_url, page.status, None, page.fetched_at, page, root)
            except MemoryError:
                raise
            except Exception as failure:  # whatever a site has written, it costs that page alone
                _log.exception("a page of %s could not be read", origin(page.url))
                error = f"the page could not be read: {failure}"
        return cls(page.url, page.requested_url, page.status, error, page.fetched_at)


NOTHING = Fetched()


@dataclass(slots=True)
class Row:
    values: dict[str, object]
    ordinal: Ordinal
    fetched: Fetched = NOTHING
    element: Element | None = None
    link_text: str | None = None
    depth: int | None = None

    @classmethod
    def from_spark(
        cls,
        values: dict[str, object],
        url: str | None,
        requested_url: str | None,
        status: int | None,
        error: str | None,
        depth: int | None,
        link_text: str | None,
        ordinal: list[int] | None,
        fetched_at: datetime | None,
    ) -> Row | None:
        """A row as it comes from Spark: its columns, and the engine's in their order; None without an ordinal."""
        if ordinal is None:
            return None
        known = url or requested_url or status or error or fetched_at
        fetched = Fetched(url, requested_url, status, error, fetched_at) if known else NOTHING
        return cls(values, tuple(ordinal), fetched, None, link_text, depth)

    def value(self, name: str) -> object:
        """The value of a column, or of an engine column that no stage wrote."""
        return self.values[name] if name in self.values else self.get_engine_values().get(name)

    def get_engine_values(self) -> dict[str, object]:
        return dict(zip(ENGINE_COLUMNS, self.get_engine_cells(), strict=True))

    def get_engine_cells(self) -> tuple[object, ...]:
        """The values of the engine columns, in their order."""
        fetched = self.fetched
        return (
            fetched.url,
            fetched.requested_url,
            fetched.status,
            fetched.error,
            self.depth,
            self.link_text,
            self.ordinal,
            fetched.fetched_at,
        )

    def with_values(self, added: Mapping[str, object]) -> Row:
        values = {**self.values, **added}
        return Row(values, self.ordinal, self.fetched, self.element, self.link_text, self.depth)

    def replace_values(self, values: Mapping[str, object]) -> Row:
        return Row(dict(values), self.ordinal, self.fetched, self.element, self.link_text, self.depth)

    def mark_failed(self, error: str, values: Mapping[str, object]) -> Row:
        """This row where a stage could not make its row: without a page, with the first thing that went wrong."""
        fetched = replace(self.fetched, error=self.fetched.error or error, page=None, root=None)
        return Row(dict(values), self.ordinal, fetched, None, self.link_text, self.depth)

    def follow_link(self, link: Link, ordinal: Ordinal, depth: int | None = None) -> Row:
        """This row on its way to where `link` leads; it leaves its page behind."""
        fetched = Fetched(error=link.error) if link.error else NOTHING
        return Row(self.values, ordinal, fetched, None, link.text, self.depth if depth is None else depth)

    def keep_without_link(self) -> Row:
        """This row where it has no link to follow: without a page, but with the failure that cost it its page."""
        fetched = NOTHING if self.fetched.page else self.fetched
        return Row(self.values, (*self.ordinal, 0), fetched, None, None, self.depth)

    def set_depth(self, depth: int, ordinal: Ordinal) -> Row:
        return Row(self.values, ordinal, self.fetched, self.element, self.link_text, depth)

    def make_child(self, position: int, element: Element | None) -> Row:
        """A row that comes from this one, standing on another element of its page."""
        return Row(self.values, (*self.ordinal, position), self.fetched, element, self.link_text, self.depth)
