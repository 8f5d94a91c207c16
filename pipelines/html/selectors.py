"""Selectors, compiled once and kept."""

from __future__ import annotations

from functools import lru_cache

from pipelines.html.grammar import SelectorError, parse
from pipelines.html.jsonpath import JsonPath, PathError, compile_path, is_path
from pipelines.html.matching import Query

Selector = Query | JsonPath


@lru_cache(maxsize=4096)
def compile_selector(text: str) -> Selector:
    """What `text` selects: as jsoup understands it, or as JSONPath; raises SelectorError with a sentence."""
    if not is_path(text):
        return parse(text)
    try:
        return compile_path(text)
    except PathError as error:
        raise SelectorError(str(error)) from None


__all__ = ["Selector", "SelectorError", "compile_selector"]
