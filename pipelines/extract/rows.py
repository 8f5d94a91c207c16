"""Rows in a Python worker: column values, the page, and the element that stages read; pages without a match."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple
from weakref import ref

from pipelines.extract import Document, Element
from pipelines.extract.kinds import Parser
from pipelines.extract.patterns import SelectorFailed, compile_pattern
from pipelines.extract.xml_faults import XmlFault
from pipelines.fetch import Page
from pipelines.fetch.blocks import BlockSigns, LogoutSigns, describe_block, describe_logout
from pipelines.fetch.urls import mask_secrets, origin
from pipelines.language.columns import ENGINE_COLUMNS

_log = logging.getLogger(__name__)
Ordinal = tuple[int, ...]
_HTML_TYPES = (None, "text/html", "application/xhtml+xml")
_PASSWORD = "input[type=password]"  # noqa: S105


class Link(NamedTuple):
    """A canonical URL to fetch and the text of its element; without a URL, the `error`."""

    url: str | None
    text: str | None
    error: str | None = None


def describe_malformed(pages: int, first: str) -> str:
    """Return the sentence for malformed pages that were read or kept, of which the first is named with its fault."""
    return f"1 page is malformed: {first}" if pages == 1 else f"{pages:,} pages are malformed, the first: {first}"


@dataclass(eq=False)  # immutable by convention, like Row: frozen=True makes creating one five times slower
class Fetched:
    """The page of a row, parsed once and shared by all its rows.

    `secrets` are masked in the engine's columns; links are resolved against the addresses as they are. `malformed`
    is the fault of a page that was read, or kept as a file, nevertheless.
    """

    url: str | None = None
    requested_url: str | None = None
    status: int | None = None
    error: str | None = None
    fetched_at: datetime | None = None
    page: Page | None = None
    root: Element | None = None  # of the page
    secrets: tuple[str, ...] = ()  # from `list_spellings`
    malformed: str | None = None

    @classmethod
    def from_page(
        cls,
        page: Page,
        secrets: tuple[str, ...] = (),
        parser: Parser | None = None,
        signs: tuple[BlockSigns | None, LogoutSigns | None] = (None, None),
        is_file: bool = False,
    ) -> Fetched:
        """Parse `page`; a failed page, or one that one of the `signs` matches, has a status and an error, but no tree.

        A page that cannot be read fails too, unless it is to be kept as a file.
        """
        blocked_when, logged_out = signs
        error = page.error or (None if page.ok else f"the server answered {page.status}")
        if logged_out and page.error is None and is_logged_out(page, logged_out):
            error = describe_logout()
        if error is None:
            known = (page.url, page.requested_url, page.status, None, page.fetched_at, page)
            try:
                document = Document(page, parser)
                root, unread = document.root, document.fault
                if blocked_when and _is_blocked(root, blocked_when):
                    error = describe_block("the site")
                elif unread is None:
                    return cls(*known, root, secrets, document.repaired)
            except XmlFault as fault:
                unread = str(fault)
            except MemoryError:
                raise
            except Exception as failure:  # for any reason, only this page fails
                _log.exception("a page of %s could not be read", origin(page.url))
                unread = str(failure)
            if error is None and is_file:
                return cls(*known, None, secrets, unread)
            error = error or f"the page could not be read: {unread}"
        return cls(page.url, page.requested_url, page.status, error, page.fetched_at, secrets=secrets)

    def mask(self, text: str | None) -> str | None:
        return mask_secrets(text, self.secrets) if text and self.secrets else text


def is_logged_out(page: Page, signs: LogoutSigns) -> bool:
    """Return whether the page is shown to someone who is not logged in."""
    if page.status == 401:
        return True
    try:
        if signs.address and compile_pattern(signs.address).limit_to_page({})(page.url):
            return True
        selector = signs.selector or (None if signs.address else _PASSWORD)
        if selector is None or page.content_type not in _HTML_TYPES:
            return False
        return Document(page).root.first(selector) is not None
    except (SelectorFailed, XmlFault):
        return False


def _is_blocked(root: Element, signs: BlockSigns) -> bool:
    if signs.selector and root.first(signs.selector):
        return True
    return bool(signs.text) and signs.text in root.text()


NOTHING = Fetched()
_NONE_MISSING = frozenset[int]()


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
        """Create a row from its columns and the engine columns in order; return None without an ordinal."""
        if ordinal is None:
            return None
        known = url or requested_url or status or error or fetched_at
        fetched = Fetched(url, requested_url, status, error, fetched_at) if known else NOTHING
        return cls(values, tuple(ordinal), fetched, None, link_text, depth)

    def is_empty_failure(self, names: Iterable[str]) -> bool:
        """Return whether the row has an error, and no value in these columns."""
        return self.fetched.error is not None and all(self.values.get(name) is None for name in names)

    def value(self, name: str) -> object:
        """Return the value of a column, or of an engine column."""
        return self.values[name] if name in self.values else self.get_engine_values().get(name)

    def get_engine_values(self) -> dict[str, object]:
        return dict(zip(ENGINE_COLUMNS, self.get_engine_cells(), strict=True))

    def get_engine_cells(self) -> tuple[object, ...]:
        """Return the values of the engine columns in order."""
        fetched = self.fetched
        url, requested_url, error = fetched.url, fetched.requested_url, fetched.error
        if fetched.secrets:
            url, requested_url, error = fetched.mask(url), fetched.mask(requested_url), fetched.mask(error)
        return (
            url,
            requested_url,
            fetched.status,
            error,
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
        """Return the row of a failed stage: without a page, with the first error."""
        fetched = replace(self.fetched, error=self.fetched.error or error, page=None, root=None)
        return Row(dict(values), self.ordinal, fetched, None, self.link_text, self.depth)

    def add_error(self, error: str) -> Row:
        """Return the row with its page and the first error, where a stage has served it in part."""
        fetched = replace(self.fetched, error=self.fetched.error or error)
        return Row(self.values, self.ordinal, fetched, self.element, self.link_text, self.depth)

    def follow_link(self, link: Link, ordinal: Ordinal, depth: int | None = None) -> Row:
        """Return the row for the page of `link`, without the current page."""
        fetched = Fetched(error=link.error) if link.error else NOTHING
        return Row(self.values, ordinal, fetched, None, link.text, self.depth if depth is None else depth)

    def keep_without_link(self) -> Row:
        """Return the row of a page without links: without a page, with an earlier error."""
        fetched = NOTHING if self.fetched.page else self.fetched
        return Row(self.values, (*self.ordinal, 0), fetched, None, None, self.depth)

    def set_depth(self, depth: int | None, ordinal: Ordinal) -> Row:
        return Row(self.values, ordinal, self.fetched, self.element, self.link_text, depth)

    def make_child(self, position: int, element: Element | None) -> Row:
        """Return a row for another element of the page."""
        return Row(self.values, (*self.ordinal, position), self.fetched, element, self.link_text, self.depth)


def place_link(ordinal: Ordinal, level: int, position: int) -> Ordinal:
    """Return the ordinal of a page that an explore finds at `level`.

    It is the seed's, the level, then the positions of the links that lead to the page.
    """
    seed = len(ordinal) - level - 1
    return (*ordinal[:seed], level + 1, *ordinal[seed + 1 :], position)


@dataclass(frozen=True, slots=True)
class PageSelector:
    """A selector that a stage applies to pages: of the column that it gives, or without one of the stage itself.

    Of links, it has found those that the `filters` let pass, and may be a prompt.
    """

    column: str | None
    selector: str | None
    required: bool = False
    filters: tuple[str, ...] = ()
    is_prompt: bool = False

    def __str__(self) -> str:
        if self.selector is None:
            return f"column {self.column}"
        named = f"{'prompt' if self.is_prompt else 'selector'} {self.selector}"
        column = f" (column {self.column})" if self.column else ""
        return named + (f" with {' and '.join(self.filters)}" if self.filters else "") + column


class PageTally:
    """Counts the pages that selectors are applied to, and per selector pages without a match and values without fit.

    The rows of a page arrive one after another; a selector has found something if it has for one of them.
    """

    def __init__(self, selectors: int) -> None:
        self.pages = 0
        self._empty = [0] * selectors
        self._unfit = [0] * selectors
        self._page = ref(NOTHING)
        self._all = frozenset(range(selectors))
        self._missing = _NONE_MISSING

    def add(self, page: Fetched, values: Iterable[object] = (), first: int = 0) -> None:
        """Add the values that selectors found in one row of the page, beginning with selector number `first`."""
        if page is not self._page():
            for number in self._missing:
                self._empty[number] += 1
            self._page, self._missing = ref(page), _NONE_MISSING
            if page.page is None:  # it was not read
                return
            self.pages += 1
            self._missing = self._all
        if self._missing:
            found = [number for number, value in enumerate(values, first) if value or value not in (None, [])]
            self._missing = _NONE_MISSING if len(found) == len(self._all) else self._missing.difference(found)

    def add_row(self, values: Iterable[object]) -> None:
        """Add the values of a row whose page is in one of its columns."""
        self.pages += 1
        for number, value in enumerate(values):
            self._empty[number] += not value

    def add_unfit(self, number: int) -> None:
        """Count a value of a selector that does not fit the type of its column."""
        self._unfit[number] += 1

    def count_unfit(self) -> list[int]:
        """Return the number of values that do not fit their types, per selector."""
        return [*self._unfit]

    def count_empty(self) -> list[int]:
        """Return the number of pages without a match, per selector."""
        return [count + (number in self._missing) for number, count in enumerate(self._empty)]


def count_links(find_links: Callable[[Row], Iterable[Link]], tally: PageTally) -> Callable[[Row], Iterator[Link]]:
    """Return a function that finds a row's links, and adds to the tally whether there are any."""

    def find(row: Row) -> Iterator[Link]:
        links = iter(find_links(row))
        first = next(links, None)
        if first is None or first.url:  # else the search has failed
            tally.add(row.fetched, [first])
        if first is not None:
            yield first
        yield from links

    return find
