"""The text of an element, as jsoup reads and normalises it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborNode, create_tag

_SPACE = re.compile("[ \t\n\f\r\xa0]+")
_INVISIBLE = re.compile("[\u200b\u00ad]")
_CONTROLS = "".join(map(chr, range(33)))
_BLOCK_NAMES = """
    address applet article aside audio blockquote body br button canvas caption center col colgroup dd del details dir
    div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html ins li
    link listing main marquee math menu meta nav noframes noscript ol p plaintext pre script section style svg table
    tbody td template tfoot th thead title tr ul video
"""


def _ids(names: str) -> frozenset[int]:
    """lexbor's numbers for elements; faster to ask a node for than its name."""
    return frozenset(create_tag(name).tag_id for name in names.split())


_BLOCK = _ids(_BLOCK_NAMES)
_DATA = _ids("script style iframe noembed noframes xmp")
_PRESERVED = _ids("pre plaintext textarea")
_BR = create_tag("br").tag_id
_TEXT = 2
_PRESERVED_LEVELS = 6


def normalize_text(text: str) -> str:
    """`text` with runs of white space and no-break spaces as one space, without characters that have no width."""
    if text.isprintable() and "  " not in text:  # as most are; no-break spaces and line ends are not printable
        return text
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    return _SPACE.sub(" ", text)


def get_text(root: LexborNode) -> str:
    """All text inside `root`: white space collapsed unless preformatted, boundaries of blocks a space, trimmed."""
    first = root.first_child
    if first is None or root.tag_id in _DATA:
        return ""
    raw = first.text_content if first.next is None else None
    if raw is not None and raw.isprintable() and "  " not in raw:  # as most are: then they have no controls either
        return raw.strip(" ")
    if raw is None:
        raw = _raw_text(root)
    text = normalize_text(raw).strip(_CONTROLS) if raw is not None else None
    if text is None or (text != raw and _is_preserved(first)):
        return _exact_text(first)
    return text


def may_contain(root: LexborNode, word: str) -> bool:
    """Whether `word`, without spaces, can be in the text of `root` in any case; asks lexbor, which is far quicker."""
    raw = root.text()
    return word.casefold() in (raw if raw.isascii() else _INVISIBLE.sub("", raw)).casefold()


def _raw_text(root: LexborNode) -> str | None:
    """The text inside `root` with a space wherever a block begins or ends; None when some of it is preformatted."""
    parts: list[str] = []
    skipped: int | None = None
    for node in root.traverse(include_text=True):
        kind = node.tag_id
        if kind in _BLOCK or ((before := node.prev) is not None and before.tag_id in _BLOCK):
            parts.append(" ")
        if kind == _TEXT:
            if skipped is None or (above := node.parent) is None or above.mem_id != skipped:
                parts.append(node.text_content or "")
        elif kind in _DATA:
            skipped = node.mem_id  # nodes themselves are compared by their markup
        elif kind in _PRESERVED:
            return None
    return "".join(parts)


def get_own_text(root: LexborNode) -> str:
    """The text that stands in `root` itself, normalised; not that of the elements in it."""
    text = _Text()
    for child in _children(root):
        if child.is_text_node:
            text.add(child)
        elif child.tag_id == _BR:
            text.boundary()
    return "" if root.tag_id in _DATA else text.trimmed()


def get_whole_text(root: LexborNode) -> str:
    """All text inside `root` as it was written, <br> a line break."""
    return "".join(_whole(node) for node in root.traverse(include_text=True))


def get_whole_own_text(root: LexborNode) -> str:
    return "".join(_whole(node) for node in _children(root))


def get_data(root: LexborNode) -> str:
    """What is not text inside `root`: scripts, styles, comments."""
    return "".join(_data(node) for node in root.traverse(include_text=True))


class _Text:
    """Text as it grows, and whether a space would double."""

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

    def boundary(self) -> None:
        if not self._spaced:
            self._parts.append(" ")
            self._spaced = True

    def trimmed(self) -> str:
        parts = self._parts
        return (parts[0] if len(parts) == 1 else "".join(parts)).strip(_CONTROLS)


def _exact_text(node: LexborNode) -> str:
    """The text of `node`, its later siblings and all that is inside them; without recursion, for pages nest deeply."""
    text = _Text()
    above: list[LexborNode] = []
    while True:
        child = None
        if node.is_text_node:
            text.add(node)
        elif node.is_element_node:
            tag = node.tag_id
            if tag in _BLOCK:
                text.boundary()
            child = node.first_child if tag not in _DATA else None
        if child is not None:
            above.append(node)
            node = child
            continue
        while (following := node.next) is None:
            if not above:
                return text.trimmed()
            node = above.pop()
        _leave(node, following, text)
        node = following


def _leave(node: LexborNode, following: LexborNode, text: _Text) -> None:
    """A block and what follows it in line have a space between them."""
    if node.is_element_node and node.tag_id in _BLOCK and not following.is_comment_node:
        text.boundary()


def _is_preserved(node: LexborNode) -> bool:
    """Whether the text stands in a preformatted element, or a few levels below one."""
    above = node.parent
    for _ in range(_PRESERVED_LEVELS):
        if above is None:
            return False
        if above.tag_id in _PRESERVED:
            return True
        above = above.parent
    return False


def _children(root: LexborNode) -> Iterator[LexborNode]:
    child = root.first_child
    while child is not None:
        yield child
        child = child.next


def _whole(node: LexborNode) -> str:
    if node.is_text_node:
        parent = node.parent
        return "" if parent is not None and parent.tag_id in _DATA else node.text_content or ""
    return "\n" if node.tag_id == _BR else ""


def _data(node: LexborNode) -> str:
    if node.is_comment_node:
        return node.comment_content or ""
    parent = node.parent
    is_data = node.is_text_node and parent is not None and parent.tag_id in _DATA
    return node.text_content or "" if is_data else ""
