"""Selector arguments: checked when the pipeline is read, either CSS or a `$column`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from pipelines.html import SelectorError, compile_selector
from pipelines.parameters import column_reference


def _check(text: str) -> str:
    if "${" in text or column_reference(text):
        return text
    try:
        compile_selector(text)
    except SelectorError as error:
        raise ValueError(f"not a selector: {error}") from None
    return text


Selector = Annotated[str, AfterValidator(_check)]
