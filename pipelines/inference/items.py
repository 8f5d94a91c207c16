"""Items of lists: links and segments that a model names by their texts, found as elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from selectolax.lexbor import LexborNode

from pipelines.extract.document import Element, HtmlElement
from pipelines.inference.candidates import make_reading, make_selectors
from pipelines.inference.grounding import PageIndex
from pipelines.inference.questions import GivenItem
from pipelines.inference.records import Kind, Reading

_MAX_ITEMS = 10
_SOURCES = 3  # items of a page that selectors are made from


def ground_items(index: PageIndex, root: Element, items: Sequence[GivenItem], kind: Kind) -> list[HtmlElement]:
    """Return the elements of the items in document order; of segments, the largest with one item each."""
    found: dict[int, HtmlElement] = {}
    for item in items[:_MAX_ITEMS]:
        element = _ground_link(index, item) if kind == "links" else _ground_text(index, item)
        if element is not None:
            found.setdefault(element.node.mem_id, element)
    if kind == "segments":
        found = _grow_segments(found, root)
    order = {node.mem_id: at for at, node in enumerate(root.node.traverse())} if root.node is not None else {}
    return sorted(found.values(), key=lambda each: order.get(each.node.mem_id, 0))


def items_agree(matches: Sequence[Element], known: Sequence[HtmlElement]) -> bool:
    """Return whether the matches up to the last known item are the known items: a model names the first ones."""
    wanted = {each.node.mem_id for each in known}
    found = [each.node.mem_id for each in matches if each.node is not None]
    last = max((at for at, each in enumerate(found) if each in wanted), default=-1)
    return wanted == set(found[: last + 1])


def make_item_readings(root: Element, items: Sequence[HtmlElement]) -> Iterator[Reading]:
    """Yield readings whose selectors may match all items."""
    for item in items[:_SOURCES]:
        for selector in make_selectors(item.node, root.node):
            if (reading := make_reading(selector, "text")) is not None:
                yield reading


def _ground_link(index: PageIndex, item: GivenItem) -> HtmlElement | None:
    for value, method in ((item.address, "href"), (item.text, "text")):
        grounded = index.ground(value)
        for place in grounded.locations if grounded else ():
            if place.method == method and (link := _find_link(place.element)) is not None:
                return link
    return None


def _ground_text(index: PageIndex, item: GivenItem) -> HtmlElement | None:
    grounded = index.ground(item.text)
    return grounded.locations[0].element if grounded else None


def _find_link(element: HtmlElement) -> HtmlElement | None:
    """Return the link that an element is or stands in."""
    node: LexborNode | None = element.node
    while node is not None and node.tag not in ("body", "html"):
        if node.tag == "a" and node.attributes.get("href"):
            return element.at(node)
        node = node.parent
    return None


def _grow_segments(titles: dict[int, HtmlElement], root: Element) -> dict[int, HtmlElement]:
    """Return for each title the largest element around it that has no other title; none for a single one."""
    if len(titles) < 2:
        return {}
    counts: dict[int, int] = {}
    for element in titles.values():
        node: LexborNode | None = element.node
        while node is not None:
            counts[node.mem_id] = counts.get(node.mem_id, 0) + 1
            node = node.parent
    grown: dict[int, HtmlElement] = {}
    for element in titles.values():
        node = element.node
        while (parent := node.parent) is not None and counts[parent.mem_id] == 1:
            if root.node is not None and parent.mem_id == root.node.mem_id:
                break
            node = parent
        grown[node.mem_id] = element.at(node)
    return grown
