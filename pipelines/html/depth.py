"""Bounds how deep elements nest, as browsers do: a parser takes quadratic time over a page that nests for ever."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DEEPEST = 512  # as in Blink
_SUSPICIOUS = 8192  # tags; fewer cost little however they nest
_SHORTEST_TAG = 3  # bytes
_TAG = re.compile(rb"<(/?[a-zA-Z][^\s/>]*)[^>]*>?")
_NAMES_THAT_DO_NOT_NEST = b"""
    area base br col embed hr img input link meta param source track wbr
    p li dt dd option optgroup tr td th thead tbody tfoot colgroup rt rp
"""
_STARTS = frozenset(_NAMES_THAT_DO_NOT_NEST.split())
_FLAT = _STARTS | {b"/" + name for name in _STARTS}


def bounded(html: bytes) -> bytes:
    """`html` without the tags, though with the text, of what nests deeper than browsers let it."""
    if len(html) < _SUSPICIOUS * _SHORTEST_TAG or html.count(b"<") < _SUSPICIOUS:
        return html
    names = _TAG.findall(html)
    steps = {name: _step(name) for name in set(names)}
    if _deepest(map(steps.__getitem__, names)) <= _DEEPEST:
        return html
    depth = 0

    def keep(tag: re.Match[bytes]) -> bytes:
        nonlocal depth
        before, depth = depth, max(0, depth + steps[tag.group(1)])
        return tag.group() if max(before, depth) <= _DEEPEST else b""

    return _TAG.sub(keep, html)


def _step(name: bytes) -> int:
    """How much deeper it is behind a tag than before it; the name of one that ends an element begins with a slash."""
    if name.lower() in _FLAT:
        return 0
    return -1 if name.startswith(b"/") else 1


def _deepest(steps: Iterable[int]) -> int:
    depth = deepest = 0
    for step in steps:
        depth += step
        if depth > deepest:
            deepest = depth
        elif depth < 0:
            depth = 0
    return deepest
