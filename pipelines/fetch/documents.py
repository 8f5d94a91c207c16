"""Several documents of one visit in a page cache, which keeps pages one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from pipelines.fetch.fetcher import PageCache
from pipelines.fetch.page import Page

_COUNT = "spindle-documents"  # header of a stored document: how many its visit gave
_MAX_DIGITS = 6
_NUMBER = re.compile(r"\ndocument (\d+)\Z")


def put_documents(cache: PageCache, pages: Sequence[Page], variant: str = "") -> None:
    """Cache what a visit gave: a page, or its documents in order, with one time that tells them from other visits'."""
    if len(pages) == 1:
        cache.put(pages[0], variant)
        return
    line = f"{_COUNT}: {len(pages)}\r\n".encode()
    for number, page in enumerate(pages, start=1):
        stored = replace(page, head=page.head + line, fetched_at=pages[0].fetched_at)
        cache.put(stored, _name_document(variant, number))


def get_documents(cache: PageCache, url: str, variant: str = "") -> list[Page]:
    """Return the cached page of `url`, or all documents of its last visit; nothing where one of them is missing."""
    page = cache.get(url, variant)
    if page is None or (text := page.header(_COUNT)) is None:
        return [page] if page else []
    total = int(text[:_MAX_DIGITS]) if text.isdecimal() else 1  # a site may send the header too, of any length
    pages = [replace(page, position=1)]
    for number in count(2):
        if len(pages) >= total:
            return pages
        following = cache.get(url, _name_document(variant, number))
        if following is None or following.fetched_at != page.fetched_at:
            return []
        pages.append(replace(following, position=number))
    return pages


def split_variant(variant: str) -> tuple[str, str]:
    """Return the variant of a visit, and the number of the document after the first; empty for the first."""
    found = _NUMBER.search(variant)
    return (variant[: found.start()], found[1]) if found else (variant, "")


def _name_document(variant: str, number: int) -> str:
    return f"{variant}\ndocument {number}" if number > 1 else variant
