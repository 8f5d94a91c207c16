"""searchEngine: results of Google, Bing or a SearXNG server, as rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self, cast
from urllib.parse import urlencode

from pydantic import Field, model_validator

from pipelines.contract.workers import Tools
from pipelines.coordination.services import ServiceClient, ServiceFailed
from pipelines.errors import AnswerPending, ArgumentError
from pipelines.extract.document import Document
from pipelines.extract.rows import Row
from pipelines.fetch import Page
from pipelines.inference.metadata import find_stated, read_metadata
from pipelines.language.columns import Columns, check_not_reserved
from pipelines.language.names import normalize, truncate, validate_choice
from pipelines.language.parameters import parse_column_reference
from pipelines.planning.stage import ServiceStage, register_stage
from pipelines.plugin import Plugin

plugin = Plugin(description="Add rows of search engines' results.", modules=(__name__,))

_MOST_RESULTS = 100  # Google's search answers with no more
_LONGEST_QUERY = 400
_RESULT_COLUMNS = {
    "result_link": "string",
    "result_title": "string",
    "result_snippet": "string",
    "result_rank": "int",
}
_IMAGE_COLUMN = "image_url"
# columns of `enrich`, with the names that pages state these values under
_PAGE_COLUMNS = {
    "page_title": ("name", "og:title"),
    "page_price": ("price",),
    "page_currency": ("pricecurrency",),
    "page_image": ("image",),
    "page_ean": ("gtin13", "ean"),
}

Json = dict[str, Any]
Variables = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Result:
    """A result: the address of its page, its texts, and the address of an image where images were searched."""

    link: str
    title: str | None
    snippet: str | None
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Provider:
    """A search API: its credential's variables, and how to send queries and to read results.

    `make_request` takes the variables, the query, the results before the wanted ones, their number, and whether images
    are wanted; it returns address and headers. An answer has at most `page_size` results.
    """

    name: str
    needs: tuple[str, ...]
    page_size: int
    make_request: Callable[[Variables, str, int, int, bool], tuple[str, Mapping[str, str]]]
    read_results: Callable[[Json], Iterable[Result]]

    def is_ready(self, variables: Variables) -> bool:
        """Return whether there is a credential."""
        return all(variables.get(name) for name in self.needs)


def _make_google_request(
    variables: Variables, query: str, start: int, count: int, images: bool
) -> tuple[str, Mapping[str, str]]:
    base = variables.get("GOOGLE_SEARCH_BASE_URL") or "https://www.googleapis.com"
    fields = {"cx": variables["GOOGLE_SEARCH_ENGINE_ID"], "q": query, "num": str(count), "start": str(start + 1)}
    fields |= {"searchType": "image"} if images else {}
    url = f"{base.rstrip('/')}/customsearch/v1?{urlencode(fields)}"
    return url, {"X-Goog-Api-Key": variables["GOOGLE_SEARCH_API_KEY"]}


def _read_google_results(answer: Json) -> Iterator[Result]:
    for item in _list_objects(answer.get("items")):
        context = _get_object(item.get("image")).get("contextLink")
        link = _get_text(item, "link")
        if context and link:
            yield Result(str(context), _get_text(item, "title"), _get_text(item, "snippet"), link)
        elif link:
            yield Result(link, _get_text(item, "title"), _get_text(item, "snippet"))


def _make_bing_request(
    variables: Variables, query: str, start: int, count: int, images: bool
) -> tuple[str, Mapping[str, str]]:
    base = variables.get("BING_SEARCH_BASE_URL") or "https://api.bing.microsoft.com"
    fields = urlencode({"q": query, "count": str(count), "offset": str(start)})
    url = f"{base.rstrip('/')}/v7.0/{'images/' if images else ''}search?{fields}"
    return url, {"Ocp-Apim-Subscription-Key": variables["BING_SEARCH_API_KEY"]}


def _read_bing_results(answer: Json) -> Iterator[Result]:
    for item in _list_objects(_get_object(answer.get("webPages")).get("value")):
        if link := _get_text(item, "url"):
            yield Result(link, _get_text(item, "name"), _get_text(item, "snippet"))
    for item in _list_objects(answer.get("value")):
        if link := _get_text(item, "hostPageUrl"):
            yield Result(link, _get_text(item, "name"), None, _get_text(item, "contentUrl"))


def _make_searxng_request(
    variables: Variables, query: str, start: int, count: int, images: bool
) -> tuple[str, Mapping[str, str]]:
    page = start // _SEARXNG_PAGE + 1
    fields = {"q": query, "format": "json", "categories": "images" if images else "general", "pageno": str(page)}
    key = variables.get("SEARXNG_API_KEY")
    url = f"{variables['SEARXNG_BASE_URL'].rstrip('/')}/search?{urlencode(fields)}"
    return url, {"Authorization": f"Bearer {key}"} if key else {}


def _read_searxng_results(answer: Json) -> Iterator[Result]:
    for item in _list_objects(answer.get("results")):
        if link := _get_text(item, "url"):
            yield Result(link, _get_text(item, "title"), _get_text(item, "content"), _get_text(item, "img_src"))


_SEARXNG_PAGE = 10  # results; servers give more, of which the rest is not used
PROVIDERS = {
    each.name: each
    for each in (
        Provider(
            "google",
            ("GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_ENGINE_ID"),
            10,
            _make_google_request,
            _read_google_results,
        ),
        Provider("bing", ("BING_SEARCH_API_KEY",), 50, _make_bing_request, _read_bing_results),
        Provider("searxng", ("SEARXNG_BASE_URL",), _SEARXNG_PAGE, _make_searxng_request, _read_searxng_results),
    )
}


@register_stage("searchEngine")
class SearchEngine(ServiceStage):
    """Search the web for each row, and return one row per result.

    `query` or `ean` is a text or a `$column`; with a text the stage can be the first one.
    The providers are `google`, `bing` and `searxng`, with a cloud credential of GOOGLE_SEARCH, BING_SEARCH or SEARXNG;
    by default the first that has one. A row without a result keeps null in the new columns, and one whose search failed
    also has an `_error`. Equal queries are sent once.
    `image_search` adds `image_url`. `enrich` adds the metadata of each result's page:
    `page_title`, `page_price`, `page_currency`, `page_image`, `page_ean`. These pages count for the stage; one that
    fails is listed among the failed pages, and its result is kept. With `as`, the results are JSON in one column of the
    row.
    """

    example = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/reviews.csv"]}
  - {stage: searchEngine, args: [{provider: google, ean: $ean, num_results: 5}]}
"""

    keeps_rows = True
    provider: Annotated[str, validate_choice("provider", PROVIDERS)] | None = None
    query: str | None = Field(default=None, min_length=1, description="words, or a $column with them")
    ean: str | None = Field(default=None, min_length=1, description="an EAN, or a $column with it")
    num_results: int = Field(default=10, ge=1, le=_MOST_RESULTS, description="results per row")
    image_search: bool = Field(default=False, description="search images")
    enrich: bool = Field(default=False, description="read the page of each result")
    as_: str = Field("", alias="as", description="name of one column for the results as JSON")

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        if (self.query is None) == (self.ean is None):
            raise ArgumentError("give either 'query' or 'ean'", "missing-argument")
        if self.as_:
            check_not_reserved(self.as_)
        return self

    @property
    def _asked(self) -> str:
        return self.query or self.ean or ""

    def describe(self) -> str:
        return truncate(f"{self.provider or ''} {self._asked}".strip(), 60)

    def list_references(self) -> tuple[str, ...]:
        column = parse_column_reference(self._asked)
        return (column,) if column else ()

    def list_columns(self) -> dict[str, str]:
        """Return the columns that the stage adds, with their types."""
        if self.as_:
            return {self.as_: "string"}
        columns = dict(_RESULT_COLUMNS) | ({_IMAGE_COLUMN: "string"} if self.image_search else {})
        return columns | ({name: "string" for name in _PAGE_COLUMNS} if self.enrich else {})

    def infer_columns(self, before: Columns) -> Columns:
        return before.with_columns(tuple(self.list_columns().items()))

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Row]]:
        column, literal = parse_column_reference(self._asked), self._asked
        nothing: dict[str, object] = {name: None for name in self.list_columns()}
        variables, provider = os.environ, self._choose_provider(os.environ)

        def search(row: Row) -> Sequence[Row]:
            asked = " ".join(str((row.value(column) if column else literal) or "").split())
            if not asked:
                return [row.with_values(nothing)]
            if provider is None:
                return [row.with_values(nothing).add_error(self._describe_missing_credential())]
            try:
                results = self._search(tools.services, provider, variables, asked[:_LONGEST_QUERY])
                found = self._describe_results(tools.services, results)
            except ServiceFailed as failed:
                return [row.with_values(nothing).add_error(f"searchEngine: {failed}")]
            if self.as_:
                return [row.with_values({self.as_: json.dumps(found, ensure_ascii=False)})]
            return [
                row.make_child(number, row.element).with_values(nothing | values)
                for number, values in enumerate(found, start=1)
            ] or [row.make_child(0, row.element).with_values(nothing)]

        return search

    def _choose_provider(self, variables: Variables) -> Provider | None:
        wanted = [PROVIDERS[normalize(self.provider)]] if self.provider else PROVIDERS.values()
        return next((each for each in wanted if each.is_ready(variables)), None)

    def _describe_missing_credential(self) -> str:
        kinds = {"google": "GOOGLE_SEARCH", "bing": "BING_SEARCH", "searxng": "SEARXNG"}
        named = kinds[normalize(self.provider)] if self.provider else "GOOGLE_SEARCH, BING_SEARCH or SEARXNG"
        return f"searchEngine has no search service: add a cloud credential of {named}"

    def _search(self, services: ServiceClient, provider: Provider, variables: Variables, query: str) -> list[Result]:
        """Return the results of all pages of answers that are needed; raise AnswerPending and ServiceFailed."""
        found: dict[str, Result] = {}
        for start in range(0, self.num_results, provider.page_size):
            count = min(provider.page_size, self.num_results - start)
            url, headers = provider.make_request(variables, query, start, count, self.image_search)
            more = services.ask(url, lambda page: [*provider.read_results(_read_json(page))], headers)
            found |= {each.image or each.link: each for each in more}
            if not more:
                break
        return [*found.values()][: self.num_results]

    def _describe_results(self, services: ServiceClient, results: Sequence[Result]) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for rank, each in enumerate(results, start=1):
            texts = (each.link, each.title, each.snippet, rank)
            found.append(dict(zip(_RESULT_COLUMNS, texts, strict=True)))
            if self.image_search:
                found[-1][_IMAGE_COLUMN] = each.image
        if self.enrich:
            for values, page in zip(found, _read_pages(services, [each.link for each in results]), strict=True):
                values |= page
        return found


def _read_pages(services: ServiceClient, links: Iterable[str]) -> list[dict[str, object]]:
    """Return the metadata of the pages, empty for those that fail; all are requested before the first is awaited."""
    found: list[dict[str, object]] = []
    pending: AnswerPending | None = None
    for link in links:
        try:
            found.append(services.read_page(link, _read_statements))
        except ServiceFailed:  # the result counts without its page
            found.append({name: None for name in _PAGE_COLUMNS})
        except AnswerPending as error:
            pending = error
    if pending:
        raise pending
    return found


def _read_statements(page: Page) -> dict[str, object]:
    metadata = read_metadata(Document(page).root)
    stated = {column: find_stated(metadata, names) for column, names in _PAGE_COLUMNS.items()}
    return {column: found.value if found else None for column, found in stated.items()}


def _read_json(page: Page) -> Json:
    try:
        value: object = json.loads(page.body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ServiceFailed("the search service sent no JSON object")
    return cast("Json", value)


def _list_objects(value: object) -> list[Json]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Json", each) for each in items if isinstance(each, dict)]


def _get_object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _get_text(item: Json, name: str) -> str | None:
    value = item.get(name)
    return value if isinstance(value, str) and value else None
