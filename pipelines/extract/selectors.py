"""Selectors, compiled once and kept."""

from __future__ import annotations

from functools import lru_cache

from pipelines.extract.grammar import SelectorError, parse
from pipelines.extract.jsonpath import JsonPath, PathError, compile_path, is_path
from pipelines.extract.matching import Query

Selector = Query | JsonPath

_LONGEST = 10_000  # characters


@lru_cache(maxsize=4096)
def compile_selector(text: str) -> Selector:
    """What `text` selects: as jsoup understands it, or as JSONPath; raises SelectorError with a sentence."""
    if fault := too_long(text):
        raise SelectorError(fault)
    if not is_path(text):
        return parse(text)
    try:
        return compile_path(text)
    except PathError as error:
        raise SelectorError(str(error)) from None


def too_long(text: str) -> str | None:
    """What is wrong with a selector that is longer than any may be."""
    return f"it has {len(text):,} characters, and may have {_LONGEST:,}" if len(text) > _LONGEST else None


__all__ = ["Selector", "SelectorError", "compile_selector", "too_long"]
