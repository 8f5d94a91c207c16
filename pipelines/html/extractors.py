"""What an extractor method reads from an element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import methodcaller

from pipelines.html.document import Element
from pipelines.html.price import parse_price

Value = str | float | dict[str, str] | None
_READERS: Mapping[str, Callable[[Element], Value]] = {
    "text": methodcaller("text"),
    "code": methodcaller("html"),
    "html": methodcaller("html"),
    "attrs": methodcaller("attrs"),
    "href": lambda element: element.absolute("href"),
    "src": lambda element: element.absolute("src"),
    "price": lambda element: parse_price(element.text()),
}


def extract(method: str, argument: str | None, element: Element) -> Value:
    """What `method` reads from `element`; `argument` is the attribute that `attr` reads."""
    if method == "attr":
        return element.attr(argument or "")
    return _READERS[method](element)
