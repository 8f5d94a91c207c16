"""Pagination: the pages that follow the first page of an address, found by a link, a cursor, or a number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, NamedTuple, Self
from urllib.parse import quote, unquote_plus, urlsplit

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, model_validator

from pipelines.extract import Element, SelectorFailed, compile_selector
from pipelines.extract.document import Value
from pipelines.extract.rows import Fetched, Row
from pipelines.extract.selectors import Selector, SelectorText
from pipelines.fetch import Page, canonical_url
from pipelines.fetch.fetcher import Describe
from pipelines.fetch.requests import RequestDetails, RequestTemplate
from pipelines.language.arguments import Arguments
from pipelines.language.parameters import parse_column_reference

MAX_PAGES = 10_000  # of one address
_VALUE = "{next}"
_LINK_HEADER = "link"  # as `next`: the header of that name
_LINK = re.compile(r"<([^>]*+)>((?:\s*+;\s*+[^\s=;,]++\s*+(?:=\s*+(?:\"[^\"]*+\"|[^\s;,\"]*+))?+)*+)")
_PARAMETER = re.compile(r";\s*+([^\s=;,]++)\s*+(?:=\s*+(?:\"([^\"]*+)\"|([^\s;,\"]*+)))?+")
_NUMBER = r"(?:\d{1,3}(?:,\d\d(?=,)){0,6}(?:[.,'\u2019\s]\d{3}){1,6}(?!\d)|\d{1,18})"
_COUNT = re.compile(_NUMBER)
# 1-24 of about 96, but of pages: page 1 of 4
_COUNT_OF = re.compile(
    rf"(\b(?:p[aá]g|seite|sid|str[ao]n|стр)\w*+\.?\s+)?{_NUMBER}"
    rf"\s+(?:out\s+)?(?:of|von|van|de|di|do|av|af|sur|z|ze|из|/)\s+(?:[^\W\d]++\.?\s+){{0,3}}({_NUMBER})",
    re.IGNORECASE,
)


def _check_next(text: str) -> str:
    if parse_column_reference(text):
        raise ValueError(f"'{text}' is a column; the next page is found by a selector, in JSON such as $.{text[1:]}")
    return text


class Pagination(Arguments):
    """Where the next page is: at the address, cursor or number that belongs to it, until `next` finds nothing."""

    next: Annotated[SelectorText, AfterValidator(_check_next)] | None = Field(
        default=None,
        description="selector of the next page's address, or of a cursor; `link` is the header Link with rel=next",
    )
    page: NonNegativeInt | None = Field(default=None, description="number of the first page, to count pages from")
    offset: NonNegativeInt | None = Field(default=None, description="offset of the first page, to add `size` to")
    size: PositiveInt | None = Field(default=None, description="number of items of a page")
    total: Annotated[SelectorText, AfterValidator(_check_next)] | None = Field(
        default=None, description="selector of the number of all items"
    )
    param: str | None = Field(
        default=None,
        min_length=1,
        description="parameter of the address, or field of the body such as variables.after, for the cursor or number",
    )
    url: str | None = Field(default=None, description="address of the next page, with `{next}` for the cursor")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.param is not None and self.url is not None:
            raise ValueError("give either 'param' or 'url', not both")
        if self.url is not None and _VALUE not in self.url and "${" not in self.url:
            raise ValueError(f"'url' needs {_VALUE} at the place of the cursor")
        if self.page is not None and self.offset is not None:
            raise ValueError("give either 'page' or 'offset', not both")
        if self.next is None and self.total is None:
            raise ValueError("give 'next', or 'page' or 'offset' with 'total'")
        if (self.total is not None or self.offset is not None) and self.size is None:
            raise ValueError("'total' and 'offset' need 'size', the number of items of a page")
        if self.total is not None and not self.is_counted:
            raise ValueError("'total' needs 'page' or 'offset', the number of the first page")
        return self

    @property
    def is_counted(self) -> bool:
        """Whether pages have numbers or offsets."""
        return self.page is not None or self.offset is not None

    @property
    def field(self) -> str:
        """The parameter for the cursor or number."""
        return self.param or ("offset" if self.offset is not None else "page")


class PageRows(list[Row]):
    """Rows that wait for a page after the first: `number` counts the pages, `fields` go into the request's body.

    `first` is the address of the first page.
    """

    def __init__(self, rows: Iterable[Row], first: str, number: int, following: Following, seen: set[str]) -> None:
        super().__init__(rows)
        self.first = first
        self.number = number
        self.following = following
        self.seen = seen

    @property
    def fields(self) -> Mapping[str, str | int]:
        return self.following.fields


class Following(NamedTuple):
    """The request for a next page: its address, the fields for its body, and the cursor in one of them."""

    address: str
    fields: Mapping[str, str | int] = {}
    cursor: str | None = None


class PageChains:
    """Finds the next pages of arrived pages; a page has copies of the rows of its first page.

    Cursors go into the body if the requests have one (`in_body`). A page that was requested before ends its chain.
    `cut` counts the chains that `max_pages`, or `MAX_PAGES`, ended before their last page.
    """

    def __init__(self, pagination: Pagination, in_body: bool, max_pages: int | None) -> None:
        self._pagination = pagination
        self._selector = compile_selector(pagination.next) if pagination.next else None
        self._total = compile_selector(pagination.total) if pagination.total else None
        self._in_body = in_body
        self._max_pages = min(max_pages or MAX_PAGES, MAX_PAGES)
        self.cut = 0
        self._found: list[tuple[str, list[Row]]] = []

    def check(self, page: Page, fetched: Fetched, rows: list[Row]) -> Fetched:
        """Return the page, with an error if it does not go on: with the answer or the cursor of one before.

        A page with the answer of another one gives no rows.
        """
        if not isinstance(rows, PageRows) or fetched.error or not page.ok:
            return fetched
        if _digest(page, fetched.root) in rows.seen:
            return replace(
                fetched, error=_describe_end(rows, "answers the same as a page before"), page=None, root=None
            )
        following = self._find_next(page, fetched, rows.number)
        if following and following.cursor is not None and following.cursor == rows.following.cursor:
            return replace(fetched, error=_describe_end(rows, "names its own cursor for the next page"))
        return fetched

    def add(self, page: Page, fetched: Fetched, rows: list[Row]) -> list[Row]:
        """Return the rows of the page, after noting the request for the next one."""
        if isinstance(rows, PageRows):
            first, number, seen, arrived = rows.first, rows.number, rows.seen, rows
        else:
            first, number, seen = page.requested_url, 0, set[str]()
            arrived = [row.set_depth(row.depth, (*row.ordinal, 0)) for row in rows]
        following = None if fetched.error else self._find_next(page, fetched, number)
        if following is None:
            return arrived
        seen |= {page.requested_url, _digest(page, fetched.root)}
        key = f"{following.address}\n{following.fields}" if following.fields else following.address
        if key in seen:
            return arrived
        if number + 1 >= self._max_pages:
            self.cut += 1
        else:
            seen.add(key)
            copies = [row.set_depth(row.depth, (*row.ordinal[:-1], number + 1)) for row in arrived]
            self._found.append((following.address, PageRows(copies, first, number + 1, following, seen)))
        return arrived

    def take(self) -> list[tuple[str, list[Row]]]:
        """Return the requests found since the last call."""
        found, self._found = self._found, []
        return found

    def _find_next(self, page: Page, fetched: Fetched, number: int) -> Following | None:
        """Return the request for the page after the one of this number, which is 0 for the first."""
        url, pagination = page.requested_url, self._pagination
        is_address = pagination.param is None and pagination.url is None and not pagination.is_counted
        if pagination.next == _LINK_HEADER and is_address:
            address = find_next_link(page)
            return Following(address) if address else None
        element = _find(fetched.root, self._selector)
        cursor = element.text() if element else ""
        if self._selector and (element is None or (not is_address and cursor in ("", "false"))):
            return None
        if is_address:
            address = element.link() if element else None
            return Following(address) if address else None
        value = self._count(number + 1, fetched.root) if pagination.is_counted else cursor
        if value is None:
            return None
        cursor = None if pagination.is_counted else cursor
        if pagination.url is not None:
            address = canonical_url(pagination.url.replace(_VALUE, quote(str(value), safe="")), page.url)
        elif self._in_body:
            return Following(url, {pagination.field: value}, cursor)
        else:
            address = canonical_url(set_parameter(url, pagination.field, str(value)))
        return Following(address, {}, cursor) if address else None

    def _count(self, number: int, root: Element | None) -> int | None:
        """Return the number or offset of a page, None if it would begin after the last item."""
        size, found = self._pagination.size or 0, _find(root, self._total)
        if self._total:
            total = _read_total(found) if found else None
            if total is None or not number * size < total:
                return None
        if self._pagination.offset is not None:
            return self._pagination.offset + number * size
        return (self._pagination.page or 0) + number


def _read_total(found: Element) -> float | None:
    """Return a number of JSON, and of a text the number of which it names a part, else its largest one."""
    value = found.value if isinstance(found, Value) else None
    if isinstance(value, int | float):
        return value
    text = found.text()
    totals = [total for of_pages, total in _COUNT_OF.findall(text) if not of_pages][:1] or _COUNT.findall(text)
    return max((int(re.sub(r"\D", "", each)) for each in totals), default=None)


def _describe_end(rows: PageRows, reason: str) -> str:
    return f"page {rows.number + 1} of {rows.first} {reason}, so it is taken as the last one"


def find_next_link(page: Page) -> str | None:
    """Return the address with the relation next in the header Link (RFC 8288)."""
    for target, parameters in _LINK.findall(", ".join(page.headers("link"))):
        named = ((name.lower(), quoted or plain) for name, quoted, plain in _PARAMETER.findall(parameters))
        if "next" in next((value for name, value in named if name == "rel"), "").lower().split():
            return canonical_url(target, page.url)
    return None


def _find(root: Element | None, selector: Selector | None) -> Element | None:
    try:
        return root.first(selector) if root and selector else None
    except SelectorFailed:
        return None


def _digest(page: Page, root: Element | None) -> str:
    """Return what two pages with the same rows have in common: of HTML the text, links and pictures, else the body."""
    content = page.body
    if root is not None and root.node is not None:
        addresses = (each.attr("href") or each.attr("src") or "" for each in root.select("a[href], img[src]"))
        content = "\n".join((root.text(), *addresses)).encode("utf-8", "replace")
    return f"={sha256(content).hexdigest()}"


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
    parts, name = urlsplit(url), unquote_plus(name)
    others = [each for each in parts.query.split("&") if each and unquote_plus(each.partition("=")[0]) != name]
    return parts._replace(query="&".join((*others, f"{quote(name, safe='[]')}={quote(value, safe='')}"))).geturl()
