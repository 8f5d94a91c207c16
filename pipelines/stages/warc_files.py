"""load_warc: begin with the pages of a web archive."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

from pydantic import Field

from pipelines.errors import RunError
from pipelines.extract.patterns import Searched
from pipelines.fetch import Page
from pipelines.fetch.documents import detach_document
from pipelines.filesystem import open_filesystem
from pipelines.language.columns import Columns
from pipelines.planning.stage import Fetching, register_stage
from pipelines.stages.documents import list_files
from pipelines.stages.links import Patterns, build_address_filter
from pipelines.stages.load import PathSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.contract.context import RunContext

_log = logging.getLogger(__name__)
_SCHEMA = "_requestedUrl string, _ordinal array<bigint>"
_MAX_PAGES = 2_000_000


@register_stage("load_warc")
class LoadWarc(PathSource):
    """Replace the rows by the pages of a WARC archive: one row per answer in it, with its page; nothing is requested.

    The archive is a file of WARC or ARC, compressed or not, or a folder of such files: what `spindle record`, the
    export of an execution's pages, wget, browsertrix or Common Crawl write. Redirects are no rows, and of several
    answers of one address the last one counts. An archive that was cut gives the pages before the cut, and a warning in
    the log. Stages that follow links fetch their pages from the web.
    """

    example = """
pipeline:
  - {stage: load_warc, args: ["${FOLDER}/pages.warc.gz", {type: text/html}]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""

    gives_page = True
    type: str | None = Field(None, min_length=1, description="only pages whose media type begins so, as text/html does")
    include: Patterns = Field((), description="only addresses in which one of these regular expressions matches")
    exclude: Patterns = Field((), description="no addresses in which one of these regular expressions matches")

    @property
    def fetching(self) -> Fetching:
        return Fetching(archive=sha256(repr(self).encode()).hexdigest()[:16])

    def infer_columns(self, before: Columns) -> Columns:
        return Columns()

    def needs_spark(self, before: Columns) -> bool:
        return False

    def load(self, spark: SparkSession, context: RunContext) -> DataFrame:
        return spark.createDataFrame(
            [(url, [number]) for number, url in enumerate(self._store_pages(context))], _SCHEMA
        )

    def load_locally(self, context: RunContext) -> tuple[pa.Table, Columns]:
        import pyarrow as pa

        urls = self._store_pages(context)
        ordinals = pa.array([[number] for number in range(len(urls))], pa.list_(pa.int64()))
        return pa.table([pa.array(urls, pa.string()), ordinals], names=["_requestedUrl", "_ordinal"]), Columns()

    def _store_pages(self, context: RunContext) -> list[str]:
        """Store the pages where the workers find them; return their addresses in the order of the archive."""
        from pipelines.page_cache.cache import open_store  # loads Arrow

        store, found = open_store(f"{context.downloads}/{self.fetching.archive}"), dict[str, None]()
        try:
            for page in self._read_pages(context):
                store.add("", page)
                found.pop(page.url, None)
                found[page.url] = None
                if len(found) >= min(context.most_links or _MAX_PAGES, _MAX_PAGES):
                    break
        finally:
            store.close()
        if len(found) == _MAX_PAGES:
            _log.warning("%s has more than %s pages; the others are left out", self.path, f"{_MAX_PAGES:,}")
        return list(found)

    def _read_pages(self, context: RunContext) -> Iterator[Page]:
        """Yield the wanted pages of all files; raise RunError where none of these can be read."""
        from pipelines.page_cache.warc import ArchiveReading, read_archive

        is_wanted, searched = build_address_filter(self.include, self.exclude), Searched()
        problems, pages = list[str](), 0
        for name in list_files(self.path, context):
            reading = ArchiveReading()
            files, path = open_filesystem(name)
            with files.open_input_stream(path, compression=None) as stream:
                for _, answer in read_archive(stream, reading, context.fetch.max_body):
                    if (page := detach_document(answer)) is None:
                        continue
                    pages += 1
                    is_redirect = page.status is not None and 300 <= page.status < 400
                    has_type = self.type is None or (page.content_type or "").startswith(self.type.lower())
                    if is_redirect or not has_type or not is_wanted(page.url, searched):
                        continue
                    if page.error:
                        problems.append(f"{page.url} is left out: {page.error}")
                    else:
                        yield page
            if reading.problem:
                problems.append(f"{name.rpartition('/')[2]}: {reading.problem}")
        for problem in problems:
            _log.warning("an archive could not be read as a whole: %s", problem)
        if not pages:
            raise RunError(f"'{self.path}' has no page: {'; '.join(problems[:3]) or 'it has no answers of web sites'}")
