"""Documents that the driver itself reads, politely and through the guard: sitemaps, and files of rows or addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from pipelines.contract.context import escape_pattern, unescape_pattern
from pipelines.contract.request import Files
from pipelines.coordination.client import DriverGone, SharedHostThrottle, connect
from pipelines.errors import RunError
from pipelines.extract.charset import find_encoding, to_utf8
from pipelines.extract.kinds import find_kind
from pipelines.fetch import HttpFetcher, Page
from pipelines.fetch.page import find_bom
from pipelines.filesystem import has_file, list_data_files, read_file, write_file

if TYPE_CHECKING:
    from pipelines.contract.context import RunContext
    from pipelines.fetch.fetcher import PageCache

_WEB = ("http://", "https://")
_MAX_FILE = 256 * 1024 * 1024  # bytes
_MAX_ADDRESSES = 2_000_000
_PARQUET = b"PAR1"
_GZIP = b"\x1f\x8b"
_FILE_SECONDS = 600.0
_LONGEST_NAME = 100  # characters
_numbers = count(1)


def is_web_address(path: str) -> bool:
    return path.lower().startswith(_WEB)


def fetch_documents(urls: Iterable[str], context: RunContext, max_body: int, seconds: float) -> Iterator[Page]:
    """Yield the pages of the addresses in the order in which they arrive."""
    options = replace(context.fetch, max_body=max_body, total_timeout=seconds)
    connection = connect(context.endpoint, f"documents {next(_numbers)}")
    if connection is None:
        raise DriverGone
    try:
        with (
            _open_cache(context) as cache,
            HttpFetcher(options, SharedHostThrottle(connection, options), cache) as fetcher,
        ):
            for page, _ in fetcher.fetch((url, None) for url in urls):
                yield page
    finally:
        connection.finish()


def _open_cache(context: RunContext) -> AbstractContextManager[PageCache | None]:
    """Provide the pages of the run, of which those of earlier runs are asked for again."""
    if context.pages is not None or not (context.cache.shared or context.cache.private or context.cache.replay):
        return nullcontext(context.pages)
    from pipelines.page_cache.cache import ExecutionPageCache  # loads Arrow

    return ExecutionPageCache(replace(context.cache, lifetime_seconds=0), context.fetch.user_agent)


def read_addresses(path: str, context: RunContext) -> list[str]:
    """Return the addresses of a text file, one per line, or of a dataset; raises RunError."""
    found = list[str]()
    for name in list_files(path, context):
        content = read_file(name) or b""
        found.extend(_read_column(content, path) if content.startswith(_PARQUET) else _read_lines(content, path))
    if len(found) > _MAX_ADDRESSES:
        raise RunError(f"'{path}' has {len(found):,} addresses; a file may have {_MAX_ADDRESSES:,}")
    return found


def list_files(path: str, context: RunContext) -> Iterator[str]:
    """Yield the files at a path: the file, those of the folder or dataset, or that of a web address; raise RunError."""
    files = download_file(path, context, False) if is_web_address(path) else context.find_files(path, escaped=False)
    for each in files.paths:
        name = unescape_pattern(each) if path in context.inputs else each
        yield from [name] if has_file(name) else (file.path for file in list_data_files(name))


def _read_lines(content: bytes, path: str) -> list[str]:
    try:
        return split_addresses(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise RunError(f"'{path}' is no text in UTF-8: a file of addresses has one in each line") from None


def split_addresses(text: str) -> list[str]:
    """Return the lines of a text, without blank ones and those that begin with `#`."""
    return [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]


def _read_column(content: bytes, path: str) -> list[str]:
    """Return the values of the column `url` of a Parquet file, or of its only column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(content))
    names = file.schema_arrow.names
    column = "url" if "url" in names else names[0]
    if column != "url" and len(names) > 1:
        raise RunError(f"'{path}' has no column url; read it by load_parquet, and give its column to wget")
    return [str(each) for each in file.read([column]).column(0).to_pylist() if each is not None]


def _to_utf8(page: Page) -> bytes:
    if page.body.startswith(_GZIP) or not (find_bom(page.body) or page.charset):
        return page.body
    kind = find_kind(page.content_type, page.body, None)
    return to_utf8(page.body, find_encoding(page.body, page.charset, "json" if kind.startswith("json") else "text"))


def download_file(url: str, context: RunContext, escaped: bool = True, is_text: bool = False) -> Files:
    """Store the file at a web address in the folder of the run; raises RunError.

    Its path is `escaped` for readers that take patterns. A text is stored in UTF-8 if its byte order mark or its header
    names its encoding.
    """
    (page,) = fetch_documents([url], context, _MAX_FILE, _FILE_SECONDS)
    if not page.ok:
        raise RunError(f"'{url}' cannot be read: {page.error or f'the server answered {page.status}'}")
    if context.downloads is None:
        raise RunError(f"'{url}' cannot be read: the run has no folder for it")
    name = re.sub(r"[^\w.-]", "_", page.url.partition("?")[0].rpartition("/")[2])[-_LONGEST_NAME:]
    path = f"{context.downloads}/{next(_numbers)}-{name}"  # with its suffix, by which Spark knows compressed files
    write_file(path, _to_utf8(page) if is_text else page.body)
    return Files((escape_pattern(path) if escaped else path,))
