"""sitemap: begin with the pages that a site lists."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from pipelines.errors import RunError
from pipelines.extract import Document, Element, SelectorFailed
from pipelines.extract.patterns import Searched
from pipelines.fetch import Page, canonical_url
from pipelines.fetch.page import decode_utf8
from pipelines.fetch.urls import get_host, origin
from pipelines.language.columns import Columns
from pipelines.planning.stage import Source, register_stage
from pipelines.stages.documents import fetch_documents, is_web_address
from pipelines.stages.links import Patterns, build_address_filter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.planning.context import RunContext

_log = logging.getLogger(__name__)
_MAX_BODY = 50 * 1024 * 1024  # bytes, the limit of the protocol
_AT_ONCE = 8  # sitemaps in memory
_SECONDS = 120.0
_MAX_DEPTH = 3  # of index files, which should list no index files
_MAX_SITEMAPS = 50_000
_MAX_ADDRESSES = 2_000_000  # of a run; a trial takes fewer
_ROBOTS_LINE = re.compile(r"(?im)^[ \t]*sitemap[ \t]*:[ \t]*(\S+)")
_TYPES = {"_requestedUrl": "string", "lastmod": "string", "_ordinal": "array<bigint>"}
_SCHEMA = ", ".join(f"{name} {type_}" for name, type_ in _TYPES.items())


def _validate_address(value: str) -> str:
    if "${" in value or canonical_url(value if is_web_address(value) else f"https://{value}"):
        return value
    raise ValueError(f"'{value}' is neither an http or https address nor a host")


def _parse_time(text: str) -> datetime | None:
    """Return a date or time of W3C's format, such as 2026-01 or 2026-01-31T12:00Z; None if it is malformed."""
    text = text.strip()
    text += {4: "-01-01", 7: "-01"}.get(len(text), "")
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _validate_time(value: str) -> str:
    if "${" in value or _parse_time(value):
        return value
    raise ValueError(f"'{value}' is not a date such as 2026-01-31 or 2026-01-31T12:00:00Z")


@register_stage("sitemap")
class Sitemap(Source):
    """Replace the rows by the pages in a site's sitemap: one row per address, with its page and the column lastmod.

    A host, `shop.example.com`, means https and the sitemaps that its robots.txt names, or else its /sitemap.xml; so
    does an address without a path, `http://localhost:8000`. Any other address is a sitemap itself. Index files are
    followed and files of gzip unpacked. `since` leaves out pages whose lastmod is earlier, but not those without one. A
    sitemap that cannot be read is a warning in the log, unless all of them fail.
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

        from pipelines.passes.types import parse_type

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
        self._since = _parse_time(self.stage.since) if self.stage.since else None
        self._most = min(self.context.most_links or _MAX_ADDRESSES, _MAX_ADDRESSES)
        self._is_wanted = build_address_filter(self.stage.include, self.stage.exclude)
        level, read = self._find_sitemaps(), 0
        for _ in range(_MAX_DEPTH):
            self.seen.update(level)
            nested = dict[str, None]()
            for start in range(0, len(level), _AT_ONCE):
                if len(self.found) >= self._most:
                    break
                urls = level[start : start + _AT_ONCE]
                pages = {page.requested_url: page for page in self._fetch(urls)}
                for url in urls:
                    page = pages.pop(url)
                    root = self._parse(page)
                    read += root is not None
                    for each in self._read(page, root) if root else ():
                        if each not in self.seen and len(self.seen) + len(nested) < _MAX_SITEMAPS:
                            nested[each] = None
            level = list(nested)
            if not level:
                break
        for failure in self.failures:
            _log.warning("a sitemap could not be read: %s", failure)
        if not read:
            raise RunError(f"no sitemap of '{self.stage.address}' could be read: {'; '.join(self.failures[:3])}")

    def _find_sitemaps(self) -> list[str]:
        url = canonical_url(self.stage.fixed_urls[0]) or ""
        site = origin(url)
        if url not in (f"{site}/", f"{site}/robots.txt"):
            return [url]
        (robots,) = self._fetch([f"{site}/robots.txt"])
        text = decode_utf8(robots.body) if robots.ok else ""
        named = (canonical_url(each, robots.url) for each in _ROBOTS_LINE.findall(text))
        return list(dict.fromkeys(each for each in named if each))[:_MAX_SITEMAPS] or [f"{site}/sitemap.xml"]

    def _fetch(self, urls: list[str]) -> Iterator[Page]:
        return fetch_documents(urls, self.context, _MAX_BODY, _SECONDS)

    def _parse(self, page: Page) -> Element | None:
        """Return the root of a sitemap; record a failure and return None if the page is no sitemap."""
        error = page.error or (None if page.ok else f"the server answered {page.status}")
        if not error:
            try:
                root = Document(page, "xml").root
                if fault := root.document.repaired:
                    _log.warning("the sitemap %s was repaired: %s", page.requested_url, fault)
                if root.first(":root") or root.text().startswith(("http://", "https://")):
                    return root
                error = "it is neither XML nor a list of addresses"
            except Exception as failure:  # any fault fails only this sitemap
                error = str(failure)
        self.failures.append(f"{page.requested_url}: {error}")
        return None

    def _read(self, page: Page, root: Element) -> Iterator[str]:
        """Add the addresses of a sitemap, and yield the sitemaps that an index names."""
        searched, host = Searched(), get_host(page.url)
        if not root.first(":root"):  # one address per line
            for line in root.document.text.split():
                self._add(line, page.url, None, host, searched)
        is_index = root.first(":root > sitemap") is not None
        for entry in root.select("url, sitemap"):
            location, changed = entry.first("> loc"), entry.first("> lastmod")
            time = changed.text() if changed else None
            if location is None or self._is_too_old(time):
                continue
            if not is_index:
                self._add(location.text(), page.url, time, host, searched)
            elif nested := canonical_url(location.text(), page.url):
                yield nested

    def _add(self, location: str, base: str, changed: str | None, host: str, searched: Searched) -> None:
        url = canonical_url(location, base)
        if url is None or url in self.found or len(self.found) >= self._most:
            return
        if self.stage.same_host and get_host(url) != host:
            return
        try:
            if self._is_wanted(url, searched):
                self.found[url] = changed
        except SelectorFailed as error:
            raise RunError(str(error)) from None

    def _is_too_old(self, changed: str | None) -> bool:
        time = _parse_time(changed) if changed and self._since else None
        return time is not None and self._since is not None and time < self._since
