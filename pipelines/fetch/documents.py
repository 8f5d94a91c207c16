"""Several documents of one visit, and the values that it kept, in a page cache, which keeps pages one by one."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from pipelines.fetch.fetcher import PageCache
from pipelines.fetch.page import Page

_COUNT = "spindle-documents"  # header of a stored document: how many its visit gave
_VALUES = "spindle-values"  # header of a stored document with values, and of the page that has them
_HEADERS = (f"{_COUNT}:".encode(), f"{_VALUES}:".encode())
_MAX_DIGITS = 6
_NUMBER = re.compile(r"\n(?:document (\d+)|(values\d+))\Z")
_PICTURE = "picture"


def put_documents(cache: PageCache, pages: Sequence[Page], variant: str = "") -> None:
    """Cache what a visit gave: a page, or its documents in order, with one time that tells them from other visits'."""
    for number, page in enumerate(pages, start=1):
        lines = f"{_COUNT}: {len(pages)}\r\n" if len(pages) > 1 else ""
        lines += f"{_VALUES}: {len(page.kept)}\r\n" if page.kept else ""
        if not lines:
            cache.put(page, variant)
            continue
        stored = replace(page, head=page.head + lines.encode(), fetched_at=pages[0].fetched_at, kept=None)
        if page.kept:
            cache.put(replace(stored, body=_pack(page.kept)), _name_values(variant, number))
        cache.put(stored, _name_document(variant, number))


def get_documents(cache: PageCache, url: str, variant: str = "") -> list[Page]:
    """Return the cached page of `url`, or all documents of its last visit; nothing where a part is missing."""
    page = first = cache.get(url, variant)
    if first is None:
        return []
    text = first.header(_COUNT)
    total = int(text[:_MAX_DIGITS]) if text and text.isdecimal() else 1  # a site may send it too, of any length
    pages = list[Page]()
    for number in count(1):
        if page is None or page.fetched_at != first.fetched_at:
            return []
        if page.header(_VALUES):
            values = cache.get(url, _name_values(variant, number))
            kept = _unpack(values.body) if values and values.fetched_at == first.fetched_at else None
            if kept is None:
                return []
            page = replace(page, kept=kept)
        pages.append(replace(page, position=number) if text else page)
        if number >= total:
            return pages
        page = cache.get(url, _name_document(variant, number + 1))
    return pages


def detach_document(page: Page) -> Page | None:
    """Return a stored document as a page without the others of its visit; None for the values of one."""
    if page.header(_VALUES) and _unpack(page.body) is not None:
        return None
    lines = page.head.splitlines(keepends=True)
    return replace(page, head=b"".join(line for line in lines if not line.lower().startswith(_HEADERS)))


def split_variant(variant: str) -> tuple[str, str]:
    """Return the variant of a visit, and the number of a later document or of values; empty for the first document."""
    found = _NUMBER.search(variant)
    return (variant[: found.start()], found[1] or found[2]) if found else (variant, "")


def _name_document(variant: str, number: int) -> str:
    return f"{variant}\ndocument {number}" if number > 1 else variant


def _name_values(variant: str, number: int) -> str:
    return f"{variant}\nvalues{number}"


def _pack(kept: Mapping[str, object]) -> bytes:
    values = {
        column: {_PICTURE: b64encode(value).decode()} if isinstance(value, bytes) else {"value": value}
        for column, value in kept.items()
    }
    return json.dumps({_VALUES: values}, ensure_ascii=False).encode()


def _unpack(body: bytes) -> dict[str, object] | None:
    try:
        values: dict[str, dict[str, Any]] = json.loads(body)[_VALUES]
        return {
            column: b64decode(each[_PICTURE]) if _PICTURE in each else each["value"] for column, each in values.items()
        }
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):  # a site has sent the header
        return None
