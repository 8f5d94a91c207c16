"""wget, join, explore and download: follow links over plain HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Self, cast

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PlainValidator,
    PositiveInt,
    model_validator,
)

from pipelines.browser.actions import Browsing
from pipelines.contract.workers import Tools
from pipelines.errors import ArgumentError
from pipelines.extract import SelectorFailed, compile_selector
from pipelines.extract.kinds import Parser
from pipelines.extract.pagination import Pagination
from pipelines.extract.patterns import PatternText, Searched, compile_pattern
from pipelines.extract.rows import Link, PageSelector, Row
from pipelines.extract.selectors import SelectorText
from pipelines.fetch import canonical_url
from pipelines.fetch.files import FILE_COLUMNS, NAME_COLUMN, FileName
from pipelines.fetch.requests import Method, RequestArguments
from pipelines.fetch.tracking import strip_tracking
from pipelines.fetch.urls import get_host
from pipelines.language.columns import Columns
from pipelines.language.names import truncate, validate_choice
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import Fetching, LinkStage, Render, register_stage
from pipelines.stages.documents import read_addresses

if TYPE_CHECKING:
    from pipelines.contract.context import RunContext

_LONGEST_TEXT = 10_000  # characters; nested links would otherwise repeat the text of a page many times
_MIB = 1024 * 1024

Patterns = Annotated[
    tuple[PatternText, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]


Urls = Annotated[
    str | tuple[str, ...], PlainValidator(lambda value: _validate_urls(value), json_schema_input_type=str | list[str])
]


class JoinType(StrEnum):
    INNER = "Inner"
    LEFT_OUTER = "LeftOuter"


def _validate_urls(value: object) -> str | tuple[str, ...]:
    if isinstance(value, str):
        if parse_column_reference(value) or value == "_" or "${" in value or canonical_url(value):
            return value
        raise ValueError(f"'{value}' is neither an http or https address nor a $column")
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("'url' must be an address, a $column or a list of addresses")
    for each in cast("Sequence[object]", value):
        if not isinstance(each, str) or not ("${" in each or canonical_url(each)):
            raise ValueError(f"'{truncate(str(each))}' is not an http or https address")
    return tuple(cast("Sequence[str]", value))


def _make_link(value: object, base: str | None) -> Link:
    url = canonical_url(str(value), base)
    return Link(url, None) if url else Link(None, None, f"'{truncate(str(value))}' is not an http or https address")


def _build_column_reader(column: str) -> Callable[[Row], Iterator[Link]]:
    """Return a function that reads the links of a column: one from a text, several from an array."""

    def links(row: Row) -> Iterator[Link]:
        value = row.value(column)
        values = value if isinstance(value, list) else [value]
        return (_make_link(each, row.fetched.url) for each in values if each is not None)

    return links


def _build_page_reader(selector: str, significant: tuple[str, ...]) -> Callable[[Row], Iterator[Link]]:
    """Return a function that reads the links of a page, without parameters that do not tell pages apart."""
    compiled = compile_selector(selector)

    def links(row: Row) -> Iterator[Link]:
        try:
            found = row.element.select(compiled) if row.element else []
        except SelectorFailed as error:
            yield Link(None, None, str(error))
            return
        for element in found:
            if url := element.link():
                if "?" in url or ";" in url:
                    url = strip_tracking(url, significant)
                yield Link(url, truncate(element.text(), _LONGEST_TEXT))

    return links


class RequestStage(RequestArguments, LinkStage):
    """Base of stages that send requests over plain HTTP."""

    parser: Annotated[Parser, validate_choice("parser", ("html", "xml", "json"))] | None = Field(
        None, description="type of the pages in place of their content type: html, xml or json"
    )

    @property
    def fetching(self) -> Fetching:
        return Fetching(request=self, parser=self.parser)

    def describe(self) -> str:
        method = f" {self.own_method}" if self.own_method not in (None, Method.GET) else ""
        return f"{super().describe()}{method}"

    def list_references(self) -> tuple[str, ...]:
        return (*super().list_references(), *self.list_columns())


class _CachedStage(RequestStage):
    """Base of stages whose pages later executions may use again."""

    cache: NonNegativeFloat | None = Field(
        default=None, description="freshness lifetime of these pages in seconds, as `cache` of the key spindle"
    )

    render: Annotated[Render, validate_choice("render", Render)] = Field(
        default=Render.NEVER,
        description="never: by HTTP; always: in the browser; auto: by HTTP, and in the browser where selectors find "
        "nothing by HTTP and something on the rendered page, which is learned for each template of a host",
    )

    @model_validator(mode="after")
    def _check_render(self) -> Self:
        if self.render is not Render.NEVER:
            self.check_rendered()
        return self

    def render_by_default(self, render: Render) -> Self:
        own = self.model_fields_set & {"render", *RequestArguments.model_fields}
        return self if own else self.model_copy(update={"render": render})

    @property
    def fetching(self) -> Fetching:
        how = replace(super().fetching, cache_seconds=self.cache)
        if self.render is Render.ALWAYS:
            return replace(how, browsing=Browsing(), request=None)
        return replace(how, scripts=Browsing()) if self.render is Render.AUTO else how


class _Paginating(_CachedStage):
    """Base of stages whose addresses may have several pages."""

    paginate: Pagination | None = Field(
        default=None, description="where the next page is: {next, param or url}, or {page or offset, size, total}"
    )

    @property
    def fetching(self) -> Fetching:
        return replace(super().fetching, pagination=self.paginate)


class LinkFilters(LinkStage):
    """Base of stages that follow some of the links that they find."""

    same_host: bool = Field(False, alias="sameHost", description="follow only links to the host of the page")
    include: Patterns = Field((), description="follow only addresses in which one of these regular expressions matches")
    exclude: Patterns = Field((), description="follow no addresses in which one of these regular expressions matches")

    def list_selectors(self) -> tuple[PageSelector, ...]:
        filters = {"sameHost": self.same_host, "include": self.include, "exclude": self.exclude}
        names = tuple(name for name, value in filters.items() if value)
        return tuple(replace(selector, filters=names) for selector in super().list_selectors())

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Link]]:
        find_links = super().work(tools)
        if not (self.same_host or self.include or self.exclude):
            return find_links
        is_wanted, same_host = build_address_filter(self.include, self.exclude), self.same_host

        def links(row: Row) -> Iterator[Link]:
            searched = row.element.document.searched if row.element else Searched()
            hosts = _get_own_hosts(row) if same_host else ()
            try:
                for link in find_links(row):
                    is_near = not hosts or not link.url or get_host(link.url) in hosts
                    if is_near and (not link.url or is_wanted(link.url, searched)):
                        yield link
            except SelectorFailed as error:
                yield Link(None, None, str(error))

        return links


def _get_own_hosts(row: Row) -> set[str]:
    """Return the host of the row's page; a first page may redirect to another one, such as www., a later one not."""
    urls = (row.fetched.requested_url, None if row.depth else row.fetched.url)
    return {get_host(url) for url in urls if url}


def build_address_filter(include: tuple[str, ...], exclude: tuple[str, ...]) -> Callable[[str, Searched], bool]:
    """Return a filter of addresses to follow; it raises SelectorFailed for a slow pattern."""
    wanted, unwanted = [*map(compile_pattern, include)], [*map(compile_pattern, exclude)]

    def is_wanted(url: str, searched: Searched) -> bool:
        if wanted and not any(pattern.limit_to_page(searched)(url) for pattern in wanted):
            return False
        return not any(pattern.limit_to_page(searched)(url) for pattern in unwanted)

    return is_wanted


class SelectorStage(LinkStage):
    """Base of stages that read links from the page by a selector, or from a $column."""

    positional = ("selector",)
    selector: SelectorText
    required: bool = Field(default=False, description="fail the run when no page that was read has a link")
    significant_query: tuple[str, ...] = Field(
        default=(),
        alias="significantQuery",
        description="names of parameters that stay in links though they look like tracking (utm_source) or session ids",
    )

    @model_validator(mode="after")
    def _check_required(self) -> Self:
        if self.required and not self.reads_page:
            raise ArgumentError("'required' is for a selector, and a $column has none", "conflicting-arguments")
        return self

    def describe(self) -> str:
        return self.selector

    def list_selectors(self) -> tuple[PageSelector, ...]:
        return (PageSelector(None, self.selector, self.required),) if self.reads_page else ()

    def list_references(self) -> tuple[str, ...]:
        column = parse_column_reference(self.selector)
        return (column,) if column else ()

    @property
    def reads_page(self) -> bool:
        return parse_column_reference(self.selector) is None

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Link]]:
        column = parse_column_reference(self.selector)
        return _build_column_reader(column) if column else _build_page_reader(self.selector, self.significant_query)


class AddressStage(LinkStage):
    """Base of stages that fetch addresses, or those in a column."""

    positional = ("url",)
    url: Urls = Field(default="_", description="an address, a list of addresses, or a $column")
    file: str | None = Field(
        default=None, min_length=1, description="a file with an address in each line, to begin a pipeline with"
    )

    @model_validator(mode="after")
    def _check_file(self) -> Self:
        if self.file is not None and "url" in self.model_fields_set:
            raise ArgumentError("give either 'url' or 'file', not both", "conflicting-arguments")
        return self

    def describe(self) -> str:
        if self.file is not None:
            return f"file {self.file}"
        if isinstance(self.url, str):
            return self.url
        return self.url[0] if len(self.url) == 1 else f"{self.url[0]} and {len(self.url) - 1} more"

    @property
    def _column(self) -> str | None:
        if self.file is not None or not isinstance(self.url, str):
            return None
        return "_" if self.url == "_" else parse_column_reference(self.url)

    @property
    def fixed_urls(self) -> tuple[str, ...]:
        if self._column or self.file is not None:
            return ()
        return (self.url,) if isinstance(self.url, str) else self.url

    @property
    def seed_file(self) -> str | None:
        return self.file

    def list_inputs(self) -> tuple[str, ...]:
        return (self.file,) if self.file else ()

    def list_seeds(self, context: RunContext) -> Sequence[Link]:
        addresses = read_addresses(self.file, context) if self.file else self.fixed_urls
        return [_make_link(each, None) for each in addresses]

    def list_references(self) -> tuple[str, ...]:
        return (self._column,) if self._column else ()

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Link]]:
        if self._column:
            return _build_column_reader(self._column)
        links = [_make_link(each, None) for each in self.fixed_urls]
        return lambda row: links


class JoinStage(SelectorStage):
    """Base of stages that return one row per link."""

    positional = ("selector", "joinType")
    join_type: Annotated[JoinType, validate_choice("join type", JoinType)] = Field(
        JoinType.LEFT_OUTER, alias="joinType"
    )

    def describe(self) -> str:
        return self.selector if self.join_type is JoinType.LEFT_OUTER else f"{self.selector} {self.join_type}"

    @property
    def drops_rows_without_link(self) -> bool:
        return self.join_type is JoinType.INNER


class ExploreStage(SelectorStage):
    """Base of stages that follow links of links."""

    positional = ("selector", "depth")
    depth: NonNegativeInt = Field(1, le=10_000)
    most_alike: PositiveInt | None = Field(
        None,
        alias="maxPerTemplate",
        description="the most pages of addresses that differ only in parts with digits and in values of parameters",
    )

    def describe(self) -> str:
        return f"{self.selector} depth {self.depth}"

    @property
    def max_depth(self) -> int | None:
        return self.depth

    @property
    def max_per_template(self) -> int | None:
        return self.most_alike


@register_stage("wget", "fetch")
class Wget(_Paginating, AddressStage):
    """Fetch the page at an address, or at the address in a column; rows without an address remain, without a page.

    A list of addresses gives a row for each of them, and so does `file`, at the beginning of a pipeline: a text file
    with an address in each line, without blank lines and those that begin with `#`, or a dataset with a column `url`.

    `headers`, `cookies`, `method`, `form`, `multipart` and `json` describe the request; a `$column` in a value means
    the row's. Credentials (cookies, and headers named after a key, token or the like) go to the hosts of the addresses
    that the pipeline names and to their subdomains, or else to the host of an address from a column: not where
    redirects and links lead. A body follows no redirect and no `next` to another site.

    `paginate` adds a row per following page: `{next: a.next}` by a link, `{next: link}` by the header Link, `{next:
    $.cursor, param: after}` by a cursor that belongs into a parameter of the address (or a field of the body, such as
    variables.after for GraphQL), `{next: $.cursor, url: "https://shop.example.com/list/{next}"}` by a cursor within an
    address. It ends when `next` finds nothing. `{page: 1, size: 100, total: $.total}` counts the parameter page from
    that of the first address, `{offset: 0, size: 100, total: $.total}` the parameter offset, and `param` names another
    one; with `next` in place of `total` until that finds nothing. In a text the total is the 10 of `1-3 of 10`, or the
    largest number. A page that answers the same as one before, or names the cursor that led to it, is the last one and
    has `_error`.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: wget, args: [$page, {headers: {Accept-Language: de}}]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""


@register_stage("wgetJoin", "join")
class WgetJoin(_Paginating, LinkFilters, JoinStage):
    """Follow every link of the page: one row per link, in document order, each with the linked page.

    A link is an element with an `href` of http or https. `$column` takes one address or an array of them from a column,
    and `$.data.next` takes addresses from a page in JSON. The request and further pages are described as in wget.

    After a fetch with traces, `join` is short for visitJoin.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: wgetJoin, args: ["li.product a", Inner]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""


@register_stage("wgetExplore", "explore")
class WgetExplore(_CachedStage, LinkFilters, ExploreStage):
    """Follow links of links, breadth first: one row per page, including the first page, and no page twice.

    The selector works as in wgetJoin: `a.next`, or `$.data.next` for an API that returns JSON. `depth` is the number of
    links to follow from the first page; `maxPages` of the key spindle sets a limit on the pages. Of links that redirect
    to one page, the first counts, or the one that is its address. `[a, 1]` follows links to other sites too:
    `sameHost: true` stays on the host, and `include` and `exclude` select addresses.

    `maxPerTemplate: 200` bounds calendars, endless facets and other traps: of addresses such as /calendar/2026/11 and
    /calendar/2026/12, or /list?color=red and /list?color=blue, the first 200 are followed, and a warning at the end has
    the names of those with more.

    After a fetch with traces, `explore` is short for visitExplore.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: wgetExplore, args: [a.next, {depth: 10}]}
  - {stage: flatSelect, args: [li.product, {selector: a, as: name}]}
"""


@register_stage("download")
class Download(RequestStage, AddressStage):
    """Download the file at the address in a column, or one row for each address of an array, and keep it.

    Adds the columns `_path`, `_type` (media type), `_bytes` and `_sha256`; they are null, with a sentence in `_error`,
    for a file that cannot be had or is larger than `maxBytes`. Equal files are kept once; all files of a run may have
    10 GiB. On a server `_path` is `files/` and the hash: GET …/executions/{id}/files/{sha256} returns the file. With
    `spindle run`, files are in a folder named after the output (`rows_files` for `-o rows.csv`) or the pipeline. The
    stages after a download read the file as their page. The request is described as in wget.

    `name` names the files, with `$column` for the row's value: it adds the column `_name`, and with `spindle run` the
    file has this name. Characters that lead out of the folder or that some system refuses become `_`, and the extension
    is one of the media type. A name that another file of the folder has is followed by digits of the hash.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/products.csv"]}
  - {stage: download, args: [$page, {name: "$name.html", maxBytes: 5000000}]}
"""

    max_bytes: int = Field(default=32 * _MIB, alias="maxBytes", ge=1, le=512 * _MIB, description="size limit of a file")

    name: str | None = Field(default=None, min_length=1, description="name of a file, such as $sku.pdf")

    @property
    def fetching(self) -> Fetching:
        name = None if self.name is None else FileName(self.name)
        return replace(super().fetching, file_limit=self.max_bytes, file_name=name)

    def list_references(self) -> tuple[str, ...]:
        name = self.fetching.file_name
        return (*super().list_references(), *(name.list_columns() if name else ()))

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(FILE_COLUMNS + ((NAME_COLUMN,) if self.name else ()))
