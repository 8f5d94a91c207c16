"""Pages as elements: parsed once, selected as jsoup does, read by extractors."""

from __future__ import annotations

from pipelines.html.document import Document, Element
from pipelines.html.extractors import READERS
from pipelines.html.patterns import SlowPattern
from pipelines.html.price import parse_price
from pipelines.html.selectors import Selector, SelectorError, compile_selector

__all__ = [
    "READERS",
    "Document",
    "Element",
    "Selector",
    "SelectorError",
    "SlowPattern",
    "compile_selector",
    "parse_price",
]
