"""Selector arguments: checked when the pipeline is read, either CSS or a `$column`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from pipelines.extract import SelectorError, compile_selector
from pipelines.language.parameters import parse_column_reference


def _check(text: str) -> str:
    if "${" in text or parse_column_reference(text):
        return text
    try:
        compile_selector(text)
    except SelectorError as error:
        raise ValueError(f"not a selector: {error}{_advice(text)}") from None
    return text


def _advice(text: str) -> str:
    """What takes the place of XPath and of Scrapy's `::text` and `::attr()`."""
    if text.lstrip("(").startswith(("/", "./", "..")):
        return "; selectors are CSS, and $.paths in JSON, not XPath"
    return "; what is read of an element is its method: text, or attr:NAME" if "::" in text else ""


Selector = Annotated[str, AfterValidator(_check)]
