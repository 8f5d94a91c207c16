"""Templates of addresses: those of a calendar, a catalogue or its facets differ only in numbers and values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MAX_TEMPLATES = 100  # that are named, of those with more addresses than are followed
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\d+")
_MAX_SEGMENTS = 12
_MAX_NAMES = 2  # of parameters; facets combine without end


def get_template(url: str) -> str:
    """Return host and path of a canonical URL, and the names of its parameters, without what varies.

    A part of the path with a digit is a `*`, and one that occurs before it is left out: relative links go round in
    circles. So are more than two parameters.
    """
    address, _, query = url.partition("?")
    host, *segments = address.partition("://")[2].split("/")
    path = "/".join([host, *_vary(segments)][: _MAX_SEGMENTS + 1])
    names = sorted({_NUMBER.sub("*", each.partition("=")[0]) for each in query.split("&") if each})
    if not names:
        return path
    return f"{path}?{'&'.join(names) if len(names) <= _MAX_NAMES else '*'}"


def _vary(segments: Iterable[str]) -> Iterator[str]:
    seen = set[str]()
    for each in segments:
        if _DIGIT.search(each):
            yield "*"
        elif each not in seen:
            seen.add(each)
            yield each
