"""The text of an element: as jsoup reads it, for selectors, and as people see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from selectolax.lexbor import LexborNode, create_tag

_SPACE = re.compile("[ \t\n\f\r\xa0]+")
_INVISIBLE = re.compile("[\u200b\u00ad]")
_CONTROLS = "".join(map(chr, range(33)))
_DISPLAY = re.compile(r"display\s*:\s*([\w-]*)", re.IGNORECASE)
# with which jsoup separates texts, and elements of SVG and MathML
_JSOUP_NAMES = """
    address applet article aside audio blockquote body br button canvas caption center col colgroup dd details dialog
    dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr
    html iframe img input li link listing main marquee math menu meta meter nav noframes noscript object ol option
    output p picture plaintext pre progress script search section select style svg table tbody td template textarea
    tfoot th thead title tr ul video
"""
_JSOUP_BLOCKS = frozenset(_JSOUP_NAMES.split())
_UNSEEN = frozenset(("datalist", "link", "meta", "script", "style"))
_INLINE = frozenset(("embed", "iframe", "img", "input", "meter", "object", "output", "picture", "progress", "textarea"))
# elements that are apart from the text around them, as browsers show them
BLOCK_NAMES = _JSOUP_BLOCKS - _UNSEEN - _INLINE | {"legend", "optgroup", "summary"}


def _get_tag_ids(names: Iterable[str]) -> frozenset[int]:
    """Return lexbor's numbers of elements, which are faster to compare than names."""
    return frozenset(create_tag(name).tag_id for name in names)


_BLOCK = _get_tag_ids(_JSOUP_BLOCKS)
_SEEN_BLOCK = _get_tag_ids(BLOCK_NAMES)
_DATA = _get_tag_ids(("script", "style", "iframe", "noembed", "noframes", "xmp"))
_PRESERVED = _get_tag_ids(("pre", "plaintext", "textarea"))
_BR = create_tag("br").tag_id
_SCRIPT = create_tag("script").tag_id
_TEMPLATE = create_tag("template").tag_id
_TEXT = 2
_PRESERVED_LEVELS = 6


class Hidden(NamedTuple):
    """The elements of a page that people do not see, and those around them, by their numbers."""

    nodes: frozenset[int]
    around: frozenset[int]


FindHidden = Callable[[], Hidden | None]


def find_hidden(root: LexborNode) -> Hidden | None:
    """Return the elements of a page with `hidden` or `display: none` of their own; None without any."""
    nodes: set[int] = set()
    around: set[int] = set()
    for node in root.css('[hidden], [style*="display" i], datalist'):
        if node.tag == "datalist" or is_hidden(node.attributes):
            nodes.add(node.mem_id)
            above = node.parent
            while above is not None and above.mem_id not in around:
                around.add(above.mem_id)
                above = above.parent
    return Hidden(frozenset(nodes), frozenset(around)) if nodes else None


def is_hidden(attributes: Mapping[str, str | None]) -> bool:
    """Return whether the attributes of an element hide it; `until-found` shows it to those who search."""
    if "hidden" in attributes and (attributes["hidden"] or "").strip().lower() != "until-found":
        return True
    displays = _DISPLAY.findall(attributes.get("style") or "")
    return bool(displays) and displays[-1].lower() == "none"


def normalize_text(text: str) -> str:
    """Collapse white space and no-break spaces, and remove characters of no width."""
    if text.isprintable() and "  " not in text:  # the usual case; no-break spaces and line ends are not printable
        return text
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    return _SPACE.sub(" ", text)


def get_text(root: LexborNode) -> str:
    """Return the text inside `root` as jsoup: white space collapsed unless preformatted, blocks separated, trimmed.

    A template inside counts only if it is a shadow tree, which people see. The text of a script is empty, of one in
    JSON its content.
    """
    return _get_text(root, _BLOCK, None)


def get_seen_text(root: LexborNode, find: FindHidden) -> str:
    """Return the text inside `root` as people see it, with blocks as browsers have them and without hidden elements.

    `find` is asked for these only where there are elements inside.
    """
    return _get_text(root, _SEEN_BLOCK, find)


def _get_text(root: LexborNode, blocks: frozenset[int], find: FindHidden | None) -> str:
    first = root.first_child
    if first is None or root.tag_id in _DATA:
        return (first.text_content or "").strip() if first and _is_json_script(root) else ""
    raw = first.text_content if first.next is None else None
    if raw is not None and raw.isprintable() and "  " not in raw:  # the usual case, without control characters
        return raw.strip(" ")
    if find and (hidden := find()) and root.mem_id in hidden.around:
        return _get_exact_text(first, blocks, hidden.nodes)
    if raw is None:
        raw = _get_raw_text(root, blocks)
    text = normalize_text(raw).strip(_CONTROLS) if raw is not None else None
    if text is None or (text != raw and _is_preserved(first)):
        return _get_exact_text(first, blocks, frozenset())
    return text


def get_visible_text(root: LexborNode) -> str:
    """Return the text inside `root`, as get_text does; that of all scripts is empty."""
    return get_text(root) if root.tag_id != _SCRIPT else ""


def _is_json_script(node: LexborNode) -> bool:
    return node.tag_id == _SCRIPT and (node.attributes.get("type") or "").strip().lower().endswith("json")


def may_contain(root: LexborNode, word: str) -> bool:
    """Return whether the text of `root` may contain `word`, in any case; faster than the exact text."""
    raw = root.text()
    return word.casefold() in (raw if raw.isascii() else _INVISIBLE.sub("", raw)).casefold()


def _get_raw_text(root: LexborNode, blocks: frozenset[int]) -> str | None:
    """Return the text inside `root` with spaces at block boundaries; None if some of it is preformatted or unseen."""
    parts: list[str] = []
    skipped: int | None = None
    for node in root.traverse(include_text=True):
        kind = node.tag_id
        if kind in blocks or ((before := node.prev) is not None and before.tag_id in blocks):
            parts.append(" ")
        if kind == _TEXT:
            if skipped is None or (above := node.parent) is None or above.mem_id != skipped:
                parts.append(node.text_content or "")
        elif kind in _DATA:
            skipped = node.mem_id  # nodes themselves are compared by their markup
        elif kind in _PRESERVED or (kind == _TEMPLATE and _is_unseen(node) and node.mem_id != root.mem_id):
            return None
    return "".join(parts)


def get_own_text(root: LexborNode) -> str:
    """Return the normalized text of `root` without its child elements."""
    text = _Text()
    for child in _iter_children(root):
        if child.is_text_node:
            text.add(child)
        elif child.tag_id == _BR:
            text.add_boundary()
    return "" if root.tag_id in _DATA else text.get_trimmed()


def get_whole_text(root: LexborNode) -> str:
    """Return the text inside `root` unchanged, <br> as a line break."""
    return "".join(_get_whole(node) for node in root.traverse(include_text=True))


def get_whole_own_text(root: LexborNode) -> str:
    return "".join(_get_whole(node) for node in _iter_children(root))


def get_data(root: LexborNode) -> str:
    """Return the scripts, styles and comments inside `root`."""
    return "".join(_get_node_data(node) for node in root.traverse(include_text=True))


class _Text:
    """A text builder that avoids double spaces."""

    __slots__ = ("_parts", "_spaced")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._spaced = False

    def add(self, node: LexborNode) -> None:
        raw = node.text_content or ""
        text = normalize_text(raw)
        if self._spaced:
            text = text.removeprefix(" ")
        if text != raw and _is_preserved(node):
            text = raw
        if text:
            self._parts.append(text)
            self._spaced = text[-1] == " "

    def add_boundary(self) -> None:
        if not self._spaced:
            self._parts.append(" ")
            self._spaced = True

    def get_trimmed(self) -> str:
        parts = self._parts
        return (parts[0] if len(parts) == 1 else "".join(parts)).strip(_CONTROLS)


def _get_exact_text(node: LexborNode, blocks: frozenset[int], hidden: frozenset[int]) -> str:
    """Return the text of `node`, its later siblings and their descendants, without recursion."""
    text = _Text()
    above: list[LexborNode] = []
    while True:
        child = None
        is_block = node.tag_id in blocks and not (hidden and node.mem_id in hidden)
        if node.is_text_node:
            text.add(node)
        elif node.is_element_node and not (hidden and node.mem_id in hidden):
            if is_block:
                text.add_boundary()
            has_text = node.tag_id not in _DATA and not (node.tag_id == _TEMPLATE and _is_unseen(node))
            child = node.first_child if has_text else None
        if child is not None:
            above.append(node)
            node = child
            continue
        while (following := node.next) is None:
            if not above:
                return text.get_trimmed()
            node = above.pop()
            is_block = node.tag_id in blocks
        if is_block and not following.is_comment_node:  # a space between a block and inline content after it
            text.add_boundary()
        node = following


def _is_unseen(template: LexborNode) -> bool:
    """Return whether a template is no declarative shadow tree."""
    return "shadowrootmode" not in template.attributes


def _is_preserved(node: LexborNode) -> bool:
    """Return whether the text is in a preformatted element, or a few levels below one."""
    above = node.parent
    for _ in range(_PRESERVED_LEVELS):
        if above is None:
            return False
        if above.tag_id in _PRESERVED:
            return True
        above = above.parent
    return False


def _iter_children(root: LexborNode) -> Iterator[LexborNode]:
    child = root.first_child
    while child is not None:
        yield child
        child = child.next


def _get_whole(node: LexborNode) -> str:
    if node.is_text_node:
        parent = node.parent
        return "" if parent is not None and parent.tag_id in _DATA else node.text_content or ""
    return "\n" if node.tag_id == _BR else ""


def _get_node_data(node: LexborNode) -> str:
    if node.is_comment_node:
        return node.comment_content or ""
    parent = node.parent
    is_data = node.is_text_node and parent is not None and parent.tag_id in _DATA
    return node.text_content or "" if is_data else ""
