"""sitemap: begin with the pages that a site lists."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from pipelines.errors import RunError
from pipelines.extract import SelectorFailed
from pipelines.extract.patterns import Searched
from pipelines.extract.sitemaps import (
    UnreadableSitemap,
    parse_end,
    parse_time,
    read_entries,
    read_robots_lines,
)
from pipelines.fetch import Page, canonical_url
from pipelines.fetch.urls import get_host, origin
from pipelines.language.columns import Columns
from pipelines.planning.stage import Source, register_stage
from pipelines.stages.documents import fetch_documents, is_web_address
from pipelines.stages.links import Patterns, build_address_filter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.contract.context import RunContext

_log = logging.getLogger(__name__)
_MAX_BODY = 50 * 1024 * 1024  # bytes, the limit of the protocol
_AT_ONCE = 8  # sitemaps in memory
_SECONDS = 120.0
_MAX_DEPTH = 3  # of index files, which should list no index files
_MAX_SITEMAPS = 50_000
_MAX_ADDRESSES = 2_000_000  # of a run; a trial takes fewer
_TYPES = {"_requestedUrl": "string", "lastmod": "string", "_ordinal": "array<bigint>"}
_SCHEMA = ", ".join(f"{name} {type_}" for name, type_ in _TYPES.items())


def _validate_address(value: str) -> str:
    if "${" in value or canonical_url(value if is_web_address(value) else f"https://{value}"):
        return value
    raise ValueError(f"'{value}' is neither an http or https address nor a host")


def _validate_time(value: str) -> str:
    if "${" in value or parse_time(value):
        return value
    raise ValueError(f"'{value}' is not a date such as 2026-01-31 or 2026-01-31T12:00:00Z")


@register_stage("sitemap")
class Sitemap(Source):
    """Replace the rows by the pages in a site's sitemap: one row per address, with its page and the column lastmod.

    A host, `shop.example.com`, means https and the sitemaps that its robots.txt names, or else its /sitemap.xml; so
    does an address without a path, `http://localhost:8000`. Any other address is a sitemap itself: a file of the
    protocol, an RSS or Atom feed, or a text with an address in each line. Index files are followed and files of gzip
    unpacked. `since` leaves out pages whose lastmod ends before it (2026-05 with the end of May), but not those without
    one. A sitemap that cannot be read, or has no address, is a warning in the log, unless all of them fail.
    """

    example = """
pipeline:
  - {stage: sitemap, args: ["${SHOP}", {include: /lamp|/cup, since: "2026-01-01"}]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""

    positional = ("address",)
    gives_page = True
    address: Annotated[str, Field(min_length=1), AfterValidator(_validate_address)]
    since: Annotated[str, AfterValidator(_validate_time)] | None = Field(
        None, description="leaves out pages whose lastmod is before this date or time"
    )
    same_host: bool = Field(False, alias="sameHost", description="only pages of the host of the sitemap")
    include: Patterns = Field((), description="only addresses in which one of these regular expressions matches")
    exclude: Patterns = Field((), description="no addresses in which one of these regular expressions matches")

    def describe(self) -> str:
        return self.address

    @property
    def fixed_urls(self) -> tuple[str, ...]:
        return (self.address if is_web_address(self.address) else f"https://{self.address}",)

    def infer_columns(self, before: Columns) -> Columns:
        return Columns((("lastmod", "string"),))

    def needs_spark(self, before: Columns) -> bool:
        return False

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        return spark.createDataFrame(self._find_pages(context), _SCHEMA)

    def load_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        columns = Columns((("lastmod", "string"),))
        import pyarrow as pa

        from pipelines.columns.types import parse_type

        rows = [*zip(*self._find_pages(context), strict=True)] or [(), (), ()]
        arrays = [pa.array(values, parse_type(type_)) for values, type_ in zip(rows, _TYPES.values(), strict=True)]
        return pa.table(arrays, names=[*_TYPES]), columns

    def _find_pages(self, context: RunContext) -> list[tuple[str, str | None, list[int]]]:
        """Return addresses, times of their last change, and ordinals."""
        search = Search(self, context)
        search.run()
        return [(url, changed, [number]) for number, (url, changed) in enumerate(search.found.items(), start=1)]


@dataclass
class Search:
    """Reads the sitemaps of a stage, level by level; `found` has the lastmod by address, in document order."""

    stage: Sitemap
    context: RunContext
    found: dict[str, str | None] = field(default_factory=dict[str, str | None])
    seen: set[str] = field(default_factory=set[str])
    failures: list[str] = field(default_factory=list[str])

    def run(self) -> None:
        """Read all sitemaps; raises RunError if all fail."""
        self._since = parse_time(self.stage.since) if self.stage.since else None
        self._most = min(self.context.most_links or _MAX_ADDRESSES, _MAX_ADDRESSES)
        self._is_wanted = build_address_filter(self.stage.include, self.stage.exclude)
        level, has_read = self._find_sitemaps(), False
        for _ in range(_MAX_DEPTH):
            self.seen.update(level)
            nested = dict[str, None]()
            for start in range(0, len(level), _AT_ONCE):
                if len(self.found) >= self._most:
                    break
                urls = level[start : start + _AT_ONCE]
                pages = {page.requested_url: page for page in self._fetch(urls)}
                for url in urls:
                    has_read |= self._read(pages.pop(url), nested)
            level = list(nested)
            if not level:
                break
        if len(self.found) < self._most:
            self.failures.extend(f"{url}: it is below {_MAX_DEPTH} index files" for url in level)
        for failure in self.failures:
            _log.warning("a sitemap could not be read: %s", failure)
        if not has_read:
            reason = "; ".join(self.failures[:3]) or "its index lists no other sitemap"
            raise RunError(f"no sitemap of '{self.stage.address}' could be read: {reason}")

    def _find_sitemaps(self) -> list[str]:
        url = canonical_url(self.stage.fixed_urls[0]) or ""
        site = origin(url)
        if url not in (f"{site}/", f"{site}/robots.txt"):
            return [url]
        (robots,) = self._fetch([f"{site}/robots.txt"])
        return read_robots_lines(robots)[:_MAX_SITEMAPS] or [f"{site}/sitemap.xml"]

    def _fetch(self, urls: list[str]) -> Iterator[Page]:
        return fetch_documents(urls, self.context, _MAX_BODY, _SECONDS)

    def _read(self, page: Page, nested: dict[str, None]) -> bool:
        """Add the addresses of a sitemap, and those of an index to `nested`; return whether it lists pages.

        An index whose sitemaps are all too old counts too. Records a failure if the page is no sitemap.
        """
        try:
            entries = read_entries(page)
        except UnreadableSitemap as failure:
            self.failures.append(f"{page.requested_url}: {failure}")
            return False
        searched, host, lists_pages = Searched(), get_host(page.url), False
        for url, changed, is_sitemap in entries:
            end = parse_end(changed) if changed and self._since else None
            is_too_old = end is not None and self._since is not None and end <= self._since
            lists_pages |= is_too_old or not is_sitemap
            if is_too_old:
                continue
            if not is_sitemap:
                self._add(url, changed, host, searched)
            elif url not in self.seen and len(self.seen) + len(nested) < _MAX_SITEMAPS:
                nested[url] = None
        return lists_pages

    def _add(self, url: str, changed: str | None, host: str, searched: Searched) -> None:
        if url in self.found or len(self.found) >= self._most:
            return
        if self.stage.same_host and get_host(url) != host:
            return
        try:
            if self._is_wanted(url, searched):
                self.found[url] = changed
        except SelectorFailed as error:
            raise RunError(str(error)) from None
