"""Selectors as pipelines write them: CSS in jsoup's dialect, JSONPath, or a `$column`."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator

from pipelines.errors import ArgumentError
from pipelines.extract.grammar import SelectorError, parse_selector
from pipelines.extract.jsonpath import JsonPath, JsonPathError, is_json_path, parse_json_path
from pipelines.extract.matching import Query
from pipelines.language.parameters import parse_column_reference

Selector = Query | JsonPath

_MAX_LENGTH = 10_000  # characters


@lru_cache(maxsize=4096)
def compile_selector(text: str) -> Selector:
    """Compile CSS in jsoup's dialect, or JSONPath; raise SelectorError."""
    if fault := find_length_fault(text):
        raise SelectorError(fault)
    if not is_json_path(text):
        return parse_selector(text)
    try:
        return parse_json_path(text)
    except JsonPathError as error:
        raise SelectorError(str(error)) from None


def find_length_fault(text: str) -> str | None:
    """Return a sentence when a selector is too long."""
    return f"it has {len(text):,} characters, and may have {_MAX_LENGTH:,}" if len(text) > _MAX_LENGTH else None


def _check_selector(text: str) -> str:
    if "${" in text or parse_column_reference(text):
        return text
    try:
        compile_selector(text)
    except SelectorError as error:
        raise ArgumentError(f"not a selector: {error}{_suggest_syntax(text)}", "invalid-selector") from None
    return text


def _check_xpath(text: str) -> str:
    from pipelines.extract.trees import check_xpath  # lxml is needed only where an XPath is written

    if fault := None if "${" in text else find_length_fault(text) or check_xpath(text):
        raise ArgumentError(f"not an XPath: {fault}", "invalid-xpath")
    return text


def _suggest_syntax(text: str) -> str:
    """Return advice for XPath, and for Scrapy's `::text` and `::attr()`."""
    if text.lstrip("(").startswith(("/", "./", "..")):
        return "; selectors are CSS, and $.paths in JSON; an extractor takes an XPath as 'xpath'"
    return "; what is read of an element is its method: text, or attr:NAME" if "::" in text else ""


# The type of a selector argument of a stage: checked when the pipeline is read.
SelectorText = Annotated[str, AfterValidator(_check_selector)]

# The type of an XPath argument.
XPathText = Annotated[str, AfterValidator(_check_xpath)]
