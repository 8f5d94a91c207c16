"""Pages as elements: parsed once, selected as jsoup does, read by extractors."""

from __future__ import annotations

from pipelines.html.document import Document, Element, HtmlElement
from pipelines.html.extractors import NODE_READERS, READERS
from pipelines.html.matching import Query
from pipelines.html.patterns import SlowPattern
from pipelines.html.price import parse_price
from pipelines.html.selectors import Selector, SelectorError, compile_selector

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
