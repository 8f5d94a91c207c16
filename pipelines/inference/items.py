"""Items of lists: links and segments that a model names by their texts, found as elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from selectolax.lexbor import LexborNode

from pipelines.contract.questions import Kind
from pipelines.extract.document import Element, HtmlElement
from pipelines.inference.candidates import make_candidate, make_reading, make_selectors, rank_candidates
from pipelines.inference.grounding import PageIndex
from pipelines.inference.questions import GivenItem
from pipelines.inference.reading import select_elements
from pipelines.inference.records import Reading

_MAX_ITEMS = 10  # that a model names of a page
_SOURCES = 3  # items of a page that selectors are made from


@dataclass(frozen=True, slots=True)
class PageItems:
    """The paths of the items of a single page, which no selector serves; `missing` ones were named and not found."""

    paths: tuple[str, ...] = ()
    missing: int = 0


def ground_items(
    index: PageIndex, root: Element, items: Sequence[GivenItem], kind: Kind
) -> tuple[list[HtmlElement], int]:
    """Return the elements of the items in document order, and the number of items that the page does not have.

    Segments are the largest elements with one item each.
    """
    found: dict[int, HtmlElement] = {}
    missing = 0
    for item in items[:_MAX_ITEMS]:
        element = _ground_link(index, item) if kind == "links" else _ground_text(index, item)
        if element is not None:
            found.setdefault(element.node.mem_id, element)
        else:
            missing += 1
    if kind == "segments":
        titles, found = len(found), _grow_segments(found, root)
        missing += 0 if found else titles
    order = {node.mem_id: at for at, node in enumerate(root.node.traverse())} if root.node is not None else {}
    return sorted(found.values(), key=lambda each: order.get(each.node.mem_id, 0)), missing


def complete_items(root: Element, items: Sequence[HtmlElement], named: int) -> Sequence[Element]:
    """Return all items of a page of which a model has named the first ones; where it named fewer, these are all."""
    if named < _MAX_ITEMS:
        return items
    readings = dict.fromkeys(make_item_readings(root, items))
    agreeing = [each for each in readings if items_agree(select_elements(each, root), items)]
    best = rank_candidates(make_candidate(each, 1) for each in agreeing)
    return select_elements(best[0].reading, root) if best else items


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
    """Return the link that an element is or is inside."""
    node: LexborNode | None = element.node
    while node is not None and node.tag not in ("body", "html"):
        if node.tag == "a" and node.attributes.get("href"):
            return element.at(node)
        node = node.parent
    return None


def _grow_segments(titles: dict[int, HtmlElement], root: Element) -> dict[int, HtmlElement]:
    """Return the largest element around a title that has no other title, for all titles; empty for a single one."""
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
