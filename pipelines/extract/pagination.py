"""Pagination: the pages that follow the first page of an address, found by a link or a cursor in the page before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field, model_validator

from pipelines.extract import SelectorFailed, compile_selector
from pipelines.extract.rows import Fetched, Row
from pipelines.extract.selectors import Selector, SelectorText
from pipelines.fetch import Page, canonical_url
from pipelines.fetch.fetcher import Describe
from pipelines.fetch.requests import RequestDetails, RequestTemplate
from pipelines.language.arguments import Arguments
from pipelines.language.parameters import parse_column_reference

MAX_PAGES = 10_000  # of one address
_VALUE = "{next}"


def _check_next(text: str) -> str:
    if parse_column_reference(text):
        raise ValueError(f"'{text}' is a column; the next page is found by a selector, in JSON such as $.{text[1:]}")
    return text


class Pagination(Arguments):
    """Where the next page is: at the address or cursor that a selector finds, until it finds nothing."""

    next: Annotated[SelectorText, AfterValidator(_check_next)] = Field(
        description="selector of the next page's address, or of a cursor"
    )
    param: str | None = Field(
        default=None, min_length=1, description="parameter of the address, or field of form or json, for the cursor"
    )
    url: str | None = Field(default=None, description="address of the next page, with `{next}` for the cursor")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.param is not None and self.url is not None:
            raise ValueError("give either 'param' or 'url', not both")
        if self.url is not None and _VALUE not in self.url and "${" not in self.url:
            raise ValueError(f"'url' needs {_VALUE} at the place of the cursor")
        return self


class PageRows(list[Row]):
    """Rows that wait for a page after the first: `number` counts the pages, `fields` go into the request's body.

    `first` is the address of the first page.
    """

    def __init__(self, rows: Iterable[Row], first: str, number: int, fields: dict[str, str], seen: set[str]) -> None:
        super().__init__(rows)
        self.first = first
        self.number = number
        self.fields = fields
        self.seen = seen


class PageChains:
    """Finds the next pages of arrived pages; a page has copies of the rows of its first page.

    Cursors go into the body if the requests have one (`in_body`). A page that was requested before ends its chain.
    `cut` counts the chains that `max_pages`, or `MAX_PAGES`, ended before their last page.
    """

    def __init__(self, pagination: Pagination, in_body: bool, max_pages: int | None) -> None:
        self._pagination = pagination
        self._selector: Selector = compile_selector(pagination.next)
        self._in_body = in_body
        self._max_pages = min(max_pages or MAX_PAGES, MAX_PAGES)
        self.cut = 0
        self._found: list[tuple[str, list[Row]]] = []

    def add(self, page: Page, fetched: Fetched, rows: list[Row]) -> list[Row]:
        """Return the rows of the page, after noting the request for the next one."""
        if isinstance(rows, PageRows):
            first, number, seen, arrived = rows.first, rows.number, rows.seen, rows
        else:
            first, number, seen = page.requested_url, 0, set[str]()
            arrived = [row.set_depth(row.depth, (*row.ordinal, 0)) for row in rows]
        address, fields = self._find_next(page, fetched)
        if address is None:
            return arrived
        seen.add(page.requested_url)
        key = f"{address}\n{fields}" if fields else address
        if key in seen:
            return arrived
        if number + 1 >= self._max_pages:
            self.cut += 1
        else:
            seen.add(key)
            following = [row.set_depth(row.depth, (*row.ordinal[:-1], number + 1)) for row in arrived]
            self._found.append((address, PageRows(following, first, number + 1, fields, seen)))
        return arrived

    def take(self) -> list[tuple[str, list[Row]]]:
        """Return the requests found since the last call."""
        found, self._found = self._found, []
        return found

    def _find_next(self, page: Page, fetched: Fetched) -> tuple[str | None, dict[str, str]]:
        """Return the address of the next page, None without one, and the fields for its body."""
        url, pagination = page.requested_url, self._pagination
        try:
            element = fetched.root.first(self._selector) if fetched.root else None
        except SelectorFailed:
            element = None
        if element is None:
            return None, {}
        if pagination.param is None and pagination.url is None:
            return element.link(), {}
        cursor = element.text()
        if cursor in ("", "false"):
            return None, {}
        if pagination.url is not None:
            return canonical_url(pagination.url.replace(_VALUE, quote(cursor, safe="")), page.url), {}
        name = pagination.param or ""
        return (url, {name: cursor}) if self._in_body else (canonical_url(set_parameter(url, name, cursor)), {})


def describe_cut(cut: int, max_pages: int | None, line: int | None) -> str:
    """Return the sentence for paginated addresses of a line of which not all pages were requested."""
    most = min(max_pages or MAX_PAGES, MAX_PAGES)
    where = f" in line {line}" if line else ""  # a pipeline of Python values has none
    return f"{cut:,} {'address has' if cut == 1 else 'addresses have'} more than {most:,} pages{where}"


def build_describer(template: RequestTemplate) -> Describe[list[Row]]:
    """Return the function that makes the request for rows with the same address."""

    def describe(url: str, rows: list[Row]) -> RequestDetails:
        following = rows if isinstance(rows, PageRows) else None
        fields, first = (following.fields, following.first) if following else (None, None)
        return template.build(url, rows[0].value, rows[0].ordinal, fields, first)

    return describe


def set_parameter(url: str, name: str, value: str) -> str:
    """Return `url` with the parameter at the end of its query, in place of an earlier one of that name."""
    parts = urlsplit(url)
    name = quote(name, safe="[]")
    others = [each for each in parts.query.split("&") if each and each.partition("=")[0] != name]
    return parts._replace(query="&".join((*others, f"{name}={quote(value, safe='')}"))).geturl()
