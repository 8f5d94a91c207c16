"""Pages as the console shows them: rebuilt from their elements, so that nothing in them runs, loads or leads away."""

from __future__ import annotations

import re
from html import escape

from selectolax.lexbor import LexborNode

from pipelines.extract import Element, HtmlElement

NUMBER = "n"
"""The attribute that has an element's number."""
MAX_CHARACTERS = 1_000_000
DROPPED = frozenset((
    "applet", "audio", "base", "canvas", "embed", "frame", "frameset", "iframe", "link", "math",
    "meta", "noembed", "noframes", "noscript", "object", "param", "plaintext", "portal",
    "script", "source", "style", "svg", "template", "track", "video", "xmp",
))  # fmt: skip
EMPTY = frozenset(("area", "br", "col", "hr", "img", "input", "wbr"))
_ATTRIBUTES = re.compile(
    r"id|class|itemprop|itemtype|property|name|title|alt|lang|dir|colspan|rowspan|data-[a-z0-9_-]{1,60}"
)
_TAG = re.compile(r"[a-z][a-z0-9-]{0,60}")
_LONGEST_VALUE = 300


def number_elements(page: Element) -> dict[object, int]:
    """Return the numbers of a page's elements in document order, by their keys."""
    if not isinstance(page, HtmlElement):
        return {}
    return {node.mem_id: number for number, node in enumerate(_iter_elements(page.node))}


def _iter_elements(root: LexborNode) -> list[LexborNode]:
    return [node for node in root.traverse(include_text=False) if node.is_element_node]


def build_markup(page: HtmlElement, numbers: dict[object, int]) -> str:
    """Return a page with the elements and attributes that may be shown; a long one is cut.

    Everything is written anew from the tree and escaped, so that no quirk of a parser makes markup of a text.
    """
    parts: list[str] = []
    length = 0
    waiting: list[LexborNode | str] = [page.node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            parts.append(node)
            continue
        if node.is_text_node:
            text = escape(node.text_content or "", quote=False)
        elif node.is_element_node and node.tag not in DROPPED and length < MAX_CHARACTERS:
            tag = node.tag if node.tag and _TAG.fullmatch(node.tag) else "span"
            text = f"<{tag} {NUMBER}={numbers.get(node.mem_id, 0)}{_write_attributes(node)}>"
            if tag not in EMPTY:
                waiting.append(f"</{tag}>")
                waiting.extend(reversed(_list_children(node)))
        else:
            continue
        if length < MAX_CHARACTERS:
            parts.append(text)
            length += len(text)
    return "".join(parts)


def _list_children(node: LexborNode) -> list[LexborNode]:
    children, child = list[LexborNode](), node.child
    while child is not None:
        children.append(child)
        child = child.next
    return children


def _write_attributes(node: LexborNode) -> str:
    written = [
        f' {name}="{escape((value or "")[:_LONGEST_VALUE])}"'
        for name, value in node.attributes.items()
        if _ATTRIBUTES.fullmatch(name)
    ]
    return "".join(written)
