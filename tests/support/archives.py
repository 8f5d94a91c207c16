"""WARC archives of the pages that a test defines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pipelines.fetch.page import Page
from pipelines.page_cache.warc import PageArchive

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


def write_archive(file: Path, pages: Mapping[str, str | int], base: str = "", media_type: str = "text/html") -> None:
    """Write pages by their paths below `base`; one that is a number has that status."""
    with file.open("wb") as stream:
        archive = PageArchive(stream)
        for path, content in pages.items():
            status, text = (content, "") if isinstance(content, int) else (200, content)
            url = f"{base}{path}"
            archive.add(Page(url, url, status, None, media_type, "utf-8", text.encode(), AT))
