"""Addresses of images: src, or the largest of srcset where src only holds the place of an image."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipelines.extract.document import Element

_CANDIDATE = re.compile(r"(?P<url>[^\s,](?:\S*[^\s,])?)(?:,+|\s+(?P<size>[^,]*)|\Z)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([wx])")
_PLACEHOLDER = re.compile(
    r"(?:\A|[/_.-])(?:(?:1x1|blank|dummy|empty|lazy|loading|pixel|placeholder|spacer|transparent)[^/]*"
    r"|(?:gr[ae]y|loader|no[-_]?(?:image|img|photo))\.\w+)\Z",
    re.IGNORECASE,
)
_SETS = ("srcset", "data-srcset", "data-lazy-srcset")
_LATE = ("data-src", "data-lazy-src", "data-lazy", "data-original")  # which a script puts in the place of src


def find_source(element: Element) -> str | None:
    """Return the absolute address that src has, or for a placeholder the one of the image that people see."""
    if element.tag in ("img", "source") and _is_placeholder(element):
        for address in _iter_addresses(element):
            if found := element.make_absolute(address):
                return found
    return element.absolute("src")


def find_largest(srcset: str) -> str | None:
    """Return the largest candidate of a srcset, of equal ones the first; None without one that has an address."""
    found: list[tuple[tuple[float, float], str]] = []
    for candidate in _CANDIDATE.finditer(srcset):
        sizes = {unit: float(number) for number, unit in _SIZE.findall(candidate["size"] or "")}
        if not _is_embedded(candidate["url"]):
            found.append(((sizes.get("w", 0), sizes.get("x", 1)), candidate["url"]))
    return max(found, key=lambda each: each[0])[1] if found else None


def _is_placeholder(element: Element) -> bool:
    source = (element.attr("src") or "").strip()
    is_dot = element.attr("width") in ("0", "1") and element.attr("height") in ("0", "1")
    return not source or _is_embedded(source) or is_dot or _PLACEHOLDER.search(source.partition("?")[0]) is not None


def _is_embedded(address: str) -> bool:
    return address[:5].lower() in ("data:", "about")


def _iter_addresses(element: Element) -> Iterator[str]:
    picture = element.parent()
    sources = picture.select("> source") if picture is not None and picture.tag == "picture" else []
    for each in (element, *sources):
        yield from filter(None, (find_largest(each.attr(name) or "") for name in _SETS))
    yield from (value for value in map(element.attr, _LATE) if value and not _is_embedded(value.strip()))
