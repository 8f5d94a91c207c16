"""What an extractor method reads from an element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from selectolax.lexbor import LexborNode

from pipelines.extract.document import Element
from pipelines.extract.price import parse_price
from pipelines.extract.text import text_of

Value = str | float | dict[str, str] | None

# By method; each gets the element and the argument, which is the attribute that `attr` reads.
READERS: Mapping[str, Callable[[Element, str | None], Value]] = {
    "text": lambda element, _: element.text(),
    "code": lambda element, _: element.html(),
    "attr": lambda element, name: element.attr(name or ""),
    "attrs": lambda element, _: element.attrs(),
    "href": lambda element, _: element.absolute("href"),
    "src": lambda element, _: element.absolute("src"),
    "price": lambda element, _: parse_price(element.text()),
}
# The same of what selectors find in HTML, quicker, for readers that need no more than the node.
NODE_READERS: Sequence[tuple[Callable[[Element, str | None], Value], Callable[[LexborNode], Value]]] = (
    (READERS["text"], text_of),
    (READERS["price"], lambda node: parse_price(text_of(node))),
)
