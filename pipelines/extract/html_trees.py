"""Trees of lxml with the elements that HTML's parser makes, for XPath. Imported only where a page needs it."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, NamedTuple

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  (it is compiled)
from selectolax.lexbor import LexborNode

from pipelines.extract.patterns import SelectorFailed
from pipelines.extract.trees import Names, Tree

_XML = "http://www.w3.org/XML/1998/namespace"
_XLINK = "http://www.w3.org/1999/xlink"
_MAX_ELEMENTS = 1_000_000  # copied in two seconds
_SubElement: Any = etree.SubElement
_TEXT = 2  # lexbor's number
_PARSER = etree.HTMLParser()  # its elements may have names that XML's may not
_PREFIXED = re.compile(r"([A-Za-z_][\w.-]*):([A-Za-z_][\w.-]*)", re.ASCII)
_BAD_NAME = re.compile(r"^\{|[&<>/\"'\s]")
_NO_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_BAD_COMMENT = re.compile("-(?=-|$)")


class HtmlTree(NamedTuple):
    """The elements and comments of a tree with their nodes, and the prefixes of names like `fb:like`."""

    root: Tree
    nodes: dict[Tree, LexborNode]
    names: Names


def build_html_tree(root: LexborNode) -> HtmlTree:
    """Copy an element with its content: libxml2's own parser of HTML would make another tree of it.

    Raises SelectorFailed for an element with more than a million elements inside.
    """
    names = dict[str, str]()
    copy = _copy_element(root, None, names)
    nodes: dict[Tree, LexborNode] = {copy: root}
    above: list[tuple[LexborNode, Tree]] = []
    parent, last, text, node = copy, None, "", root.first_child  # the text after the last child so far
    while node is not None or above:
        if node is None:
            node, last = above.pop()
            parent, text, node = last.getparent(), "", node.next
            continue
        if node.tag_id == _TEXT:
            text += node.text_content or ""
            _set_text(parent, last, text)
        elif node.is_element_node:
            last, text = _copy_element(node, parent, names), ""
            nodes[last] = node
            if len(nodes) > _MAX_ELEMENTS:
                raise SelectorFailed(f"an XPath cannot be evaluated on the page: more than {_MAX_ELEMENTS:,} elements")
            if (child := node.first_child) is not None:
                above.append((node, last))
                parent, last, node = last, None, child
                continue
        elif node.is_comment_node:
            last, text = etree.Comment(_BAD_COMMENT.sub("- ", _clean(node.comment_content or ""))), ""
            parent.append(last)
            nodes[last] = node
        node = node.next
    return HtmlTree(copy, nodes, tuple(names.items()))


def _copy_element(node: LexborNode, parent: Tree | None, names: dict[str, str]) -> Tree:
    """Append a copy of an element without its content; add the prefixes of its names to `names`."""
    name, attributes = node.tag or "", node.attributes
    make = partial(_SubElement, parent) if parent is not None else _PARSER.makeelement
    written = "".join(attributes) if attributes else ""
    if ":" not in name and ":" not in written and "{" not in written and None not in attributes.values():
        try:
            return make(name, attributes)
        except ValueError:
            pass  # a name or value cannot be one of XML
    prefixes = dict[str, str]()
    name = _qualify(name, prefixes)
    attributes = {_qualify(each, prefixes): _clean(value or "") for each, value in attributes.items()}
    names.update(prefixes)
    return make(name, attributes, prefixes)


def _qualify(name: str, prefixes: dict[str, str]) -> str:
    """Return a name as lxml writes it, with the namespace of its prefix, which is added to `prefixes`."""
    found = _PREFIXED.fullmatch(name)
    if not found or found[1] == "xmlns":
        return _BAD_NAME.sub("_", _clean(name))
    if found[1] == "xml":
        return f"{{{_XML}}}{found[2]}"
    prefixes[found[1]] = _XLINK if found[1] == "xlink" else f"urn:prefix:{found[1]}"
    return f"{{{prefixes[found[1]]}}}{found[2]}"


def _set_text(parent: Tree, last: Tree | None, text: str) -> None:
    """Set the text after the last child, or of an element without one before it."""
    try:
        if last is None:
            parent.text = text
        else:
            last.tail = text
    except ValueError:
        _set_text(parent, last, _clean(text))


def _clean(text: str) -> str:
    """Return the text without the characters that XML has not."""
    return _NO_CHARACTER.sub(" ", text)
