"""Bounds how deep elements nest, as browsers do: a parser takes quadratic time over a page that nests for ever."""

from __future__ import annotations

import re

_DEEPEST = 512  # as in Blink
_SUSPICIOUS = 8192  # tags; fewer cost little however they nest
_SHORTEST_TAG = 3  # bytes
_TAG = re.compile(rb"<(/?)([a-zA-Z][^\s/>]*)[^>]*>?")
_NAMES_THAT_DO_NOT_NEST = b"""
    area base br col embed hr img input link meta param source track wbr
    p li dt dd option optgroup tr td th thead tbody tfoot colgroup rt rp
"""
_FLAT = frozenset(_NAMES_THAT_DO_NOT_NEST.split())


def bounded(html: bytes) -> bytes:
    """`html` without the tags, though with the text, of what nests deeper than browsers let it."""
    if len(html) < _SUSPICIOUS * _SHORTEST_TAG or html.count(b"<") < _SUSPICIOUS:
        return html
    depth = 0

    def keep(tag: re.Match[bytes]) -> bytes:
        nonlocal depth
        deepest = depth
        if tag.group(2).lower() not in _FLAT:
            depth = max(0, depth + (-1 if tag.group(1) else 1))
            deepest = max(deepest, depth)
        return tag.group() if deepest <= _DEEPEST else b""

    return _TAG.sub(keep, html)
