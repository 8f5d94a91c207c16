"""Pages without the parts that inference does not need: as lines of text, and as HTML around some elements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from selectolax.lexbor import LexborNode

from pipelines.extract.document import Element
from pipelines.extract.text import BLOCK_NAMES, normalize_text

MAX_TEXT = 6000  # characters of a page's text
MAX_HTML = 4000  # characters of a page's HTML
_MAX_LINE = 400
_SKIPPED = frozenset(
    ("script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "head", "select", "link")
)
_RAISED = frozenset(("sub", "sup", "wbr"))  # parts of words
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?:\D|$)", re.I)
_ATTRIBUTES = ("id", "class", "itemprop", "itemtype", "rel", "name", "property", "role", "aria-label", "datetime")
_MAX_ATTRIBUTE = 80
_LEVELS = 3  # elements above a node that are shown
_SIBLINGS = 3  # elements on each side


def is_hidden(node: LexborNode) -> bool:
    """Return whether people do not see the element: its text cannot be a value, nor an instruction to a model."""
    attributes = node.attributes
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or _HIDDEN.search(attributes.get("style") or "") is not None
    )


def iter_visible(root: LexborNode) -> Iterator[LexborNode]:
    """Yield the visible nodes inside `root` in document order, texts included."""
    stack = [root.first_child]
    while stack:
        node = stack.pop()
        if node is None:
            continue
        stack.append(node.next)
        if node.is_text_node:
            yield node
        elif node.is_element_node and node.tag not in _SKIPPED and not is_hidden(node):
            yield node
            stack.append(node.first_child)


def prune_text(element: Element, links: bool = False, limit: int = MAX_TEXT) -> str:
    """Return the visible text in lines, a line a block; with `links`, addresses of links after their texts.

    Neighbouring elements are separated by a space where their words would run together.
    """
    root = element.node
    if root is None:
        return element.text()[:limit]
    lines = _Lines()
    stack = [(root.first_child, False)]
    while stack and lines.size <= limit:
        node, is_end = stack.pop()
        if node is None:
            continue
        if is_end:
            lines.end_element(node)
            continue
        stack.append((node.next, False))
        if node.is_text_node:
            lines.add_text(node.text_content or "")
        elif node.is_element_node and node.tag not in _SKIPPED and not is_hidden(node):
            lines.begin_element(node)
            if links and node.tag == "a" and (href := node.attributes.get("href")):
                lines.add_text(f" <{href[:200]}> ")
            stack += ((node, True), (node.first_child, False))
    lines.end()
    return "\n".join(lines.lines)[:limit]


class _Lines:
    """The text of a page as lines, in document order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.size = 0
        self._parts: list[str] = []
        self._boundary = ""  # "" inside of a text, "element" where an element ends, "both" where another begins there

    def begin_element(self, node: LexborNode) -> None:
        if node.tag in BLOCK_NAMES:
            self.end()
        elif node.tag not in _RAISED:
            self._boundary = "both" if self._boundary else "element"

    def end_element(self, node: LexborNode) -> None:
        if node.tag in BLOCK_NAMES:
            self.end()
        elif node.tag not in _RAISED and not self._boundary:
            self._boundary = "element"

    def add_text(self, text: str) -> None:
        if not text:
            return
        before = self._parts[-1][-1] if self._parts else ""
        if self._boundary and _run_together(before, text[0], self._boundary == "both"):
            self._parts.append(" ")
        self._boundary = ""
        self._parts.append(text)

    def end(self) -> None:
        """End the line, if there is text in it."""
        line = normalize_text("".join(self._parts)).strip()[:_MAX_LINE]
        self._parts.clear()
        self._boundary = ""
        if line:
            self.lines.append(line)
            self.size += len(line) + 1


def _run_together(before: str, after: str, is_between: bool) -> bool:
    """Return whether two texts read as one word: between elements any, else like `Price12` and `oneTwo`."""
    if not (before.isalnum() and after.isalnum()):
        return False
    return is_between or before.isdigit() != after.isdigit() or (before.islower() and after.isupper())


def prune_html(element: Element, nodes: Iterable[LexborNode], limit: int = MAX_HTML) -> str:
    """Return the elements around some nodes, with the attributes that selectors use and the beginning of texts."""
    root = element.node
    shown: dict[int, LexborNode] = {}
    for node in nodes:
        top = node
        for _ in range(_LEVELS):
            if (parent := top.parent) is None or (root and top.mem_id == root.mem_id) or parent.tag in ("body", "html"):
                break
            top = parent
        shown.setdefault(top.mem_id, top)
    text = "\n".join("".join(_render(node, 0)) for node in shown.values())
    return text[:limit]


def _render(node: LexborNode, depth: int) -> Iterator[str]:
    if node.is_text_node:
        yield escape(normalize_text(node.text_content or "")[:60])
        return
    if not node.is_element_node or node.tag in _SKIPPED or is_hidden(node) or depth > _LEVELS + 3:
        return
    shown = (
        f' {name}="{escape((value or "")[:_MAX_ATTRIBUTE])}"'
        for name, value in node.attributes.items()
        if name in _ATTRIBUTES or name.startswith("data-")
    )
    yield f"<{node.tag}{''.join(shown)}>"
    child, count, last = node.first_child, 0, ""
    while child is not None:
        tag = child.tag or ""
        count = count + 1 if tag == last else 0
        if count < _SIBLINGS * 2 or child.is_text_node:
            yield from _render(child, depth + 1)
        last = tag if child.is_element_node else last
        child = child.next
    yield f"</{node.tag}>"
