"""Pages as elements: parsed once, selected as jsoup does, read by extractors."""

from __future__ import annotations

from pipelines.extract.document import Document, Element, HtmlElement
from pipelines.extract.matching import Query
from pipelines.extract.methods import NODE_READERS, READERS
from pipelines.extract.patterns import SlowPattern
from pipelines.extract.price import parse_price
from pipelines.extract.selectors import Selector, SelectorError, compile_selector

__all__ = [
    "NODE_READERS",
    "READERS",
    "Document",
    "Element",
    "HtmlElement",
    "Query",
    "Selector",
    "SelectorError",
    "SlowPattern",
    "compile_selector",
    "parse_price",
]
