"""Selectors, compiled once and kept."""

from __future__ import annotations

from functools import lru_cache

from pipelines.html.grammar import SelectorError, parse
from pipelines.html.matching import Query

Selector = Query


@lru_cache(maxsize=4096)
def compile_selector(text: str) -> Selector:
    """What `text` selects, as jsoup understands it; raises SelectorError with a sentence when it does not parse."""
    return parse(text)


__all__ = ["Selector", "SelectorError", "compile_selector"]
