"""Grounding: values that a model gives count only where the page has them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from selectolax.lexbor import LexborNode

from pipelines.extract.document import Element, HtmlElement
from pipelines.extract.images import find_source
from pipelines.extract.prices import parse_price
from pipelines.extract.text import get_text
from pipelines.inference.pruning import iter_visible

_MAX_TEXT = 2000  # characters of an element that may be a value
_MAX_LOCATIONS = 6
_MAX_LABEL = 40
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_WORDS = re.compile(r"[a-z0-9]{3,}")
_READ_ATTRIBUTES = ("content", "datetime", "alt", "title", "value", "aria-label")
_NAMING_ATTRIBUTES = ("id", "class", "itemprop", "name", "property", "aria-label", "title", "rel")
_TITLES = frozenset(("title", "name", "headline", "product"))


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a value: an element, the method that reads it, and the text in front of it."""

    element: HtmlElement
    method: str = "text"
    after: str = ""

    @property
    def node(self) -> LexborNode:
        return self.element.node


@dataclass(frozen=True, slots=True)
class Grounded:
    """A value with its possible places on the page."""

    value: str
    locations: tuple[Location, ...]


class PageIndex:
    """The visible elements of a page with their texts, for several values."""

    def __init__(self, element: Element) -> None:
        self._element = element

    @cached_property
    def _nodes(self) -> list[tuple[HtmlElement, str]]:
        root = self._element
        if not isinstance(root, HtmlElement):
            return []
        nodes = [node for node in iter_visible(root.node) if node.is_element_node]
        if not root.is_page:
            nodes.insert(0, root.node)
        short = (node for node in nodes if len(node.text()) <= _MAX_TEXT)
        return [(each, each.text()) for each in map(root.at, short)]

    def ground(self, value: str | None) -> Grounded | None:
        """Return the places of a value, the innermost first in document order; None where the page lacks it."""
        wanted = normalize_value(value or "")
        if not wanted:
            return None
        found = _keep_innermost([Location(each) for each, text in self._nodes if normalize_value(text) == wanted])
        found += self._find_attributes(wanted)
        found = found or self._find_after_labels(wanted)
        found = found or _keep_innermost([Location(each) for each, text in self._nodes if values_agree(text, wanted)])
        return Grounded(" ".join((value or "").split()), tuple(found[:_MAX_LOCATIONS])) if found else None

    def _find_after_labels(self, wanted: str) -> list[Location]:
        found: list[Location] = []
        for element, text in self._nodes:
            lowered = normalize_value(text)
            if lowered.endswith(wanted) and len(lowered) == len(text):
                label = text[: len(text) - len(wanted)]
                if label.rstrip().endswith((":", "-", "#")) and len(label) <= _MAX_LABEL:
                    found.append(Location(element, after=label.rstrip()))
        return _keep_innermost(found)

    def _find_attributes(self, wanted: str) -> list[Location]:
        found: list[Location] = []
        for element, _ in self._nodes:
            attributes = element.node.attributes
            for name in ("href", "src"):
                if not attributes.get(name) and not (name == "src" and "srcset" in attributes):
                    continue
                address = find_source(element) if name == "src" else element.absolute(name)
                if wanted in (normalize_value(address or ""), normalize_value(attributes.get(name) or "")):
                    found.append(Location(element, name))
            found.extend(
                Location(element, f"attr:{name}")
                for name in _READ_ATTRIBUTES
                if (text := attributes.get(name)) and normalize_value(text) == wanted
            )
        return found


def normalize_value(text: str) -> str:
    """Return a value for comparisons: spaces collapsed, without case."""
    return " ".join(text.split()).casefold()


def values_agree(read: str, known: str) -> bool:
    """Return whether two texts are one value: the same text, or short texts around the same single number."""
    a, b = normalize_value(read), normalize_value(known)
    if a == b:
        return bool(a)
    if len(a) > _MAX_LABEL or len(b) > _MAX_LABEL or len(_DIGITS.findall(a)) != 1 or len(_DIGITS.findall(b)) != 1:
        return False
    short, long = sorted((a, b), key=len)
    is_bare = not re.search(r"[a-z]{4,}", short)  # "51.77" or "51.77 gbp", not "12 reviews" beside "12 items"
    return (is_bare or short in long) and parse_price(a) is not None and parse_price(a) == parse_price(b)


def is_supported(field: str, location: Location) -> bool:
    """Return whether the page itself names the value as the field does: in attributes, labels or tags around it."""
    words = set(_WORDS.findall(field.casefold().replace("_", " "))) or {field.casefold()}
    node: LexborNode | None = location.node
    if words & _TITLES and location.node.tag in ("h1", "h2", "h3", "title", "a"):
        return True
    if words & {"url", "link", "href", "image", "img", "picture"} and location.method in ("href", "src"):
        return True
    texts = [location.after, location.method]
    for level in range(3):
        if node is None or node.tag in ("body", "html"):
            break
        texts += [value or "" for name, value in node.attributes.items() if _names(name)]
        if level < 2 and (before := get_previous(node)) is not None and len(before.text()) <= 3 * _MAX_LABEL:
            texts.append(get_text(before))
        node = node.parent
    context = " ".join(texts).casefold()
    return any(word in context for word in words)


def get_previous(node: LexborNode) -> LexborNode | None:
    """Return the element before a node."""
    before = node.prev
    while before is not None and not before.is_element_node:
        before = before.prev
    return before


def _names(attribute: str) -> bool:
    return attribute in _NAMING_ATTRIBUTES or attribute.startswith("data-")


def _keep_innermost(locations: list[Location]) -> list[Location]:
    """Leave out elements that contain another of the elements."""
    above: set[int] = set()
    for location in locations:
        parent = location.node.parent
        while parent is not None and parent.mem_id not in above:
            above.add(parent.mem_id)
            parent = parent.parent
    return [each for each in locations if each.node.mem_id not in above]
