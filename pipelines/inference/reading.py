"""Reading pages with proven selectors, without a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from selectolax.lexbor import LexborNode

from pipelines.contract.questions import Found
from pipelines.extract.document import Element, HtmlElement
from pipelines.extract.images import find_source
from pipelines.extract.patterns import SelectorFailed, SlowPattern
from pipelines.extract.selectors import Selector, compile_selector
from pipelines.inference.records import Candidate, ProvenField, ProvenSelectors, Reading

_STEP = re.compile(r"([^/\[]+)\[(\d+)\]")  # of a path
_MIN_FALLBACK = 40  # the stability of a candidate that may be read in place of the first


def read_values(record: ProvenSelectors, element: Element) -> Mapping[str, Found | None]:
    """Return the values of all fields of a page or segment; unproven fields are null."""
    return {field.name: read_field(field, element) for field in record.fields}


def read_field(field: ProvenField, element: Element) -> Found | None:
    """Return the value of a field by its first candidate, or by one that is as safe."""
    for at, candidate in enumerate(field.candidates):
        # others may give another value where the page does not have the field
        if at and (candidate.extras or not candidate.exact or candidate.stability < _MIN_FALLBACK):
            continue
        if (found := find_value(candidate.reading, element)) is not None:
            return found
    return None


def read_items(record: ProvenSelectors, element: Element) -> list[Element]:
    """Return the links or segments of a page, by the first candidate that finds any."""
    for field in record.fields:
        for candidate in field.candidates:
            if found := select_elements(candidate.reading, element):
                return found
    return []


def find_value(reading: Reading, element: Element) -> Found | None:
    """Return the value that a reading gives, with its evidence; None for an empty one."""
    target = _find_element(reading, element)
    if target is None:
        return None
    text = target.text()
    value = _read(reading, target, text)
    if not value:
        return None
    path = get_path(target.node) if target.node is not None else reading.selector
    return Found(value, text[:200], path, element.document.page.url, "selector")


def read_value(reading: Reading, element: Element) -> str | None:
    """Return the value that a reading gives; None for an empty one."""
    target = _find_element(reading, element)
    return (_read(reading, target, None) or None) if target is not None else None


def select_elements(reading: Reading, element: Element) -> list[Element]:
    """Return all matches of a reading's selector."""
    try:
        return element.select(_compile(reading.selector))
    except (SelectorFailed, SlowPattern):
        return []


def get_path(node: LexborNode | None) -> str:
    """Return the tags from the page to a node, with positions among siblings of one name."""
    parts: list[str] = []
    while node is not None and node.is_element_node:
        tag, position, before = node.tag or "", 1, node.prev
        while before is not None:
            position += before.tag == tag
            before = before.prev
        parts.append(f"{tag}[{position}]")
        node = node.parent
    return "/".join(reversed(parts))


def find_by_path(root: HtmlElement, path: str) -> HtmlElement | None:
    """Return the element of a page with a path of `get_path`."""
    node: LexborNode | None = root.node
    for tag, position in _STEP.findall(path)[1:]:
        node, left = node.first_child if node is not None else None, int(position)
        while node is not None:
            left -= node.tag == tag
            if left == 0:
                break
            node = node.next
    return root.at(node) if node is not None else None


def find_disagreement(field: ProvenField, element: Element) -> bool | None:
    """Return whether the first two candidates give different values; null with fewer, or where one has no result."""
    values = [read_value(each.reading, element) for each in _get_safe(field.candidates)[:2]]
    return values[0] != values[1] if len(values) == 2 and None not in values else None


def _get_safe(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    return [each for each in candidates if not each.extras]


def _find_element(reading: Reading, element: Element) -> Element | None:
    try:
        return element.first(_compile(reading.selector))
    except (SelectorFailed, SlowPattern):
        return None


@lru_cache(maxsize=1024)
def _compile(selector: str) -> Selector:
    return compile_selector(selector)


def _read(reading: Reading, target: Element, text: str | None) -> str:
    if reading.method in ("href", "src"):
        return (find_source(target) if reading.method == "src" else target.absolute("href")) or ""
    if reading.method.startswith("attr:"):
        return (target.attr(reading.method[5:]) or "").strip()
    text = target.text() if text is None else text
    if not reading.after:
        return text
    _, label, rest = text.partition(reading.after)
    return rest.strip() if label else ""
