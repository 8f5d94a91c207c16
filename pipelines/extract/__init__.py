"""Pages as trees of elements: parsing, selectors in jsoup's dialect, and extractors of columns."""

from __future__ import annotations

from pipelines.extract.document import Document, Element, HtmlElement
from pipelines.extract.matching import Query
from pipelines.extract.patterns import SelectorFailed, SlowPattern
from pipelines.extract.selectors import Selector, SelectorError, compile_selector

__all__ = [
    "Document",
    "Element",
    "HtmlElement",
    "Query",
    "Selector",
    "SelectorError",
    "SelectorFailed",
    "SlowPattern",
    "compile_selector",
]
