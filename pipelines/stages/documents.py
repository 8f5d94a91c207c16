"""Documents that the driver itself fetches, politely and through the guard: sitemaps, and files at web addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from pipelines.coordination.client import DriverGone, SharedHostThrottle, connect
from pipelines.errors import RunError
from pipelines.fetch import HttpFetcher, Page
from pipelines.filesystem import write_file
from pipelines.planning.context import Files, escape_pattern

if TYPE_CHECKING:
    from pipelines.planning.context import RunContext

_WEB = ("http://", "https://")
_MAX_FILE = 256 * 1024 * 1024  # bytes
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
        with HttpFetcher(options, SharedHostThrottle(connection, options)) as fetcher:
            for page, _ in fetcher.fetch((url, None) for url in urls):
                yield page
    finally:
        connection.finish()


def download_file(url: str, context: RunContext, escaped: bool = True) -> Files:
    """Store the file at a web address in the folder of the run; raises RunError.

    Its path is `escaped` for readers that take patterns.
    """
    (page,) = fetch_documents([url], context, _MAX_FILE, _FILE_SECONDS)
    if not page.ok:
        raise RunError(f"'{url}' cannot be read: {page.error or f'the server answered {page.status}'}")
    if context.downloads is None:
        raise RunError(f"'{url}' cannot be read: the run has no folder for it")
    name = re.sub(r"[^\w.-]", "_", page.url.partition("?")[0].rpartition("/")[2])[-_LONGEST_NAME:]
    path = f"{context.downloads}/{next(_numbers)}-{name}"  # with its suffix, by which Spark knows compressed files
    write_file(path, page.body)
    return Files((escape_pattern(path) if escaped else path,))
