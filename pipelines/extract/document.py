"""Documents: pages in HTML or XML as trees of elements, or JSON values read like elements."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from selectolax.lexbor import LexborNode

from pipelines.extract import jsonpath
from pipelines.extract.charset import Encoding, decode, find_encoding, find_unknown_label, to_utf8
from pipelines.extract.jsonpath import JsonPath
from pipelines.extract.kinds import Kind, Parser, find_kind, unpack
from pipelines.extract.linked_data import LinkedData, parse_linked_data
from pipelines.extract.parsing import parse_html
from pipelines.extract.patterns import Searched
from pipelines.extract.selectors import Selector, compile_selector
from pipelines.extract.text import Hidden, find_hidden, get_data, get_seen_text, normalize_text
from pipelines.extract.xml_faults import XmlFault
from pipelines.fetch.page import Page
from pipelines.fetch.urls import MAX_BASE_LENGTH, absolute_url, canonical_url, escape_query

if TYPE_CHECKING:
    from pipelines.extract.html_trees import HtmlTree

Kept = TypeVar("Kept")
_DATA = frozenset(("script", "style"))
_HIDDEN = re.compile(rb"[\s\"'/]hidden")
_STYLE = re.compile(rb"style\s*=")


def _may_hide(html: bytes) -> bool:
    """Return whether a page in lower case has a sign of hidden elements; most have none, which few searches show."""
    return (
        (b"hidden" in html and _HIDDEN.search(html) is not None)
        or b"<datalist" in html
        or (b"display" in html and _STYLE.search(html) is not None)
    )


class Document:
    """A page; HTML and XML are parsed at once, JSON on first use.

    A page that is neither HTML nor XML has no elements but its text and, if it is JSON, values. `parser` overrides
    the content type. `fault` is why the page is not what it should be, and `repaired` the first fault of XML that was
    read nevertheless: clauses. Raises PageTooComplex, XmlFault and UndecodableContent.
    """

    fault: str | None = None
    repaired: str | None = None
    names: tuple[tuple[str, str], ...] = ()  # the prefixes of XML with their namespaces
    _has_bases: bool = False
    _html_tree: tuple[int, HtmlTree] | None = None  # of the element in which an XPath was last evaluated
    _table: tuple[object, Any] = (None, None)  # the table that was last read
    _node: LexborNode | None = None
    # a cached_property would take a lock on every page
    _encoding: Encoding | None = None
    _html: bytes | None = None  # in which nobody has looked for hidden elements yet
    _hidden: Hidden | None = None
    _tree: Any = None
    kind: Kind

    def __init__(self, page: Page, parser: Parser | None = None) -> None:
        media_type, self._body = unpack(page.content_type, page.body, parser)
        self.page = page
        self.searched: Searched = {}
        self.kind = find_kind(media_type, self._body, parser)
        if self.kind == "html":
            self._parse_html(to_utf8(self._body, self.encoding))
        elif self.kind in ("xhtml", "xml"):
            self._parse_xml(converts=parser is None)
        elif self.kind != "text":
            _ = self.json  # finds its fault

    @property
    def is_html(self) -> bool:
        return self._node is not None

    @property
    def encoding(self) -> Encoding:
        """The encoding of the body."""
        if self._encoding is None:
            self._encoding = find_encoding(self._body, self.page.charset, self.kind)
        return self._encoding

    @property
    def text(self) -> str:
        """The decoded body."""
        return decode(self._body, self.encoding)

    @property
    def root(self) -> Element:
        """The element of the whole page."""
        if self._node is not None:
            return HtmlElement(self, self._node, True)
        return TreeElement(self, self._tree, True) if self._tree is not None else Element(self)

    @cached_property
    def json(self) -> object:
        """The value of a JSON body, else None; a list of JSON in lines."""
        if self.is_html or self._tree is not None:
            return None
        try:
            return jsonpath.read_json(self.text, self.kind == "json-lines")
        except ValueError as error:
            if self.kind in ("json", "json-lines") and self._body.strip():
                self.fault = str(error)
            return None

    @cached_property
    def linked_data(self) -> LinkedData:
        """The values of the page's JSON-LD scripts, or of a page that is JSON."""
        if not self.is_html:
            return LinkedData([self.json] if self.json is not None else [], self.base_url)
        scripts = [each.node for each in self.root.select('script[type*="ld+json" i]') if each.node is not None]
        texts = (get_data(each) for each in scripts if _is_linked_data(each.attributes.get("type") or ""))
        values = (value for text in texts if (value := parse_linked_data(text)) is not None)
        return LinkedData(values, self.base_url)

    @cached_property
    def base_url(self) -> str:
        """The base of relative URLs: the first <base href>, else the URL of the page.

        A base above MAX_BASE_LENGTH is ignored, since every URL on the page would repeat it.
        """
        url = self.page.url
        element = self.root.first("base[href]") if self.is_html else None
        href = element.attr("href") if element else None
        base = absolute_url(href, url) if href else None
        return base if base and len(base) <= MAX_BASE_LENGTH else url

    def escape_query(self, url: str) -> str:
        """Escape the query of a link in the encoding of an HTML page, as browsers do; its path will be in UTF-8."""
        return url if url.isascii() or not self.is_html else escape_query(url, self.encoding.codec)

    def find_hidden(self) -> Hidden | None:
        """Return the elements of a page in HTML that people do not see."""
        if self._html is not None and self._node is not None:
            self._hidden = find_hidden(self._node) if _may_hide(self._html.lower()) else None
            self._html = None
        return self._hidden

    def get_tree(self, node: LexborNode) -> HtmlTree:
        """Return an element of HTML as a tree of lxml; that of the last element is kept."""
        from pipelines.extract.html_trees import build_html_tree

        if self._html_tree is None or self._html_tree[0] != node.mem_id:
            self._html_tree = node.mem_id, build_html_tree(node)
        return self._html_tree[1]

    def keep_table(self, key: object, read: Callable[[], Kept]) -> Kept:
        """Return what `read` makes of a table, and keep it until another table is read."""
        if self._table[0] != key:
            self._table = key, read()
        return self._table[1]

    def _parse_html(self, html: bytes) -> None:
        self._node, self._html = parse_html(html).root, html

    def _parse_xml(self, converts: bool) -> None:
        """Parse XML; a page of XHTML `converts` to HTML, as which it is read if it is hardly XML."""
        from pipelines.extract.trees import format_html, parse_xml

        body = to_utf8(self._body, self.encoding)
        try:
            parsed = parse_xml(body)
        except XmlFault as fault:
            if self.kind != "xhtml":
                raise
            parsed, self.repaired = None, f"{fault}; it was read as HTML"
        if parsed is not None:
            self._tree, self.repaired, self.names, self._has_bases = parsed.root, *parsed[1:4]
            if self.kind == "xhtml" or (parsed.is_xhtml and converts):
                self._tree = None
                self._parse_html(format_html(parsed))
        elif self.kind == "xhtml":
            self._parse_html(body)
        elif self._body.strip() and self.json is None:
            self.fault = "its XML has no element"
        if self.repaired is None and (label := find_unknown_label(self._body, self.page.charset)):
            self.repaired = f"its encoding {label[:40]!r} is not known, so it was read as {self.encoding.codec}"

    def find_base(self, tree: Any) -> str:
        """Return the base of relative URLs in an element of lxml."""
        if not self._has_bases:
            return self.base_url
        from pipelines.extract.trees import find_base

        return find_base(tree, self.page.url)


class Element:
    """An element of a page, or the page itself; created by Document and by selectors.

    This base class is a page that is not HTML: without a node and without elements.
    """

    __slots__ = ("document",)
    is_page = True

    @property
    def node(self) -> LexborNode | None:
        """The node of lexbor; None unless the page is HTML."""
        return None

    @property
    def tag(self) -> str:
        """The name of the element in lower case; empty for a value."""
        return ""

    @property
    def key(self) -> object:
        """The identity of the element on its page."""
        return None

    def __init__(self, document: Document) -> None:
        self.document = document

    def parent(self) -> Element | None:
        """Return the element around this one; None for a page or a value."""
        return None

    def select(self, selector: Selector | str) -> list[Element]:
        """Return the matching elements inside this one in document order; `:root …` searches the whole page.

        In JSON, return the values of a path without nulls, or the items of an array that is the only value.
        """
        found = self._find_values(selector)
        if len(found) == 1 and isinstance(found[0], list):
            found = cast("list[object]", found[0])
        return [Value(self.document, each) for each in found if each is not None]

    def select_values(self, path: JsonPath) -> list[Value]:
        """Return the values of a path in JSON with its nulls, so that lists of several paths stay parallel.

        The items of an array stand for the array that is the value of a path without *; a null has none.
        """
        found = self._find_values(path)
        if found and path.is_singular:
            found = (
                cast("list[object]", found[0])
                if isinstance(found[0], list)
                else [each for each in found if each is not None]
            )
        return [Value(self.document, each) for each in found]

    def first(self, selector: Selector | str) -> Element | None:
        return next((Value(self.document, each) for each in self._find_values(selector) if each is not None), None)

    def select_xpath(self, expression: str) -> list[Element]:
        """Return the elements and values of an XPath, evaluated in this element; raises SelectorFailed."""
        return []

    def text(self) -> str:
        """Return the text: white space collapsed, line breaks and block boundaries as a space, trimmed."""
        return normalize_text(self.document.text).strip()

    def html(self) -> str:
        """Return the element with its tag; of a page, the decoded body."""
        return self.document.text

    def attrs(self) -> dict[str, str]:
        """Return all attributes; without a value, an attribute is an empty text."""
        return {}

    def attr(self, name: str) -> str | None:
        """Return the value of an attribute; of `abs:href`, the value of href as an absolute URL."""
        return self.absolute(name[4:]) if name.startswith("abs:") else self._get_attribute(name)

    def absolute(self, name: str) -> str | None:
        """Return the attribute as an absolute URL of any scheme."""
        value = self._get_address(name)
        return self.make_absolute(value) if value is not None else None

    def make_absolute(self, address: str) -> str | None:
        """Return an address on the page as an absolute URL of any scheme."""
        return absolute_url(self.document.escape_query(address), self._find_base())

    def link(self, name: str = "href") -> str | None:
        """Return the attribute as a canonical http or https URL; None for other schemes."""
        value = self._get_address(name)
        return canonical_url(self.document.escape_query(value), self._find_base()) if value is not None else None

    def _get_address(self, name: str) -> str | None:
        return self._get_attribute(name)

    def _find_base(self) -> str:
        return self.document.base_url

    def _get_attribute(self, name: str) -> str | None:
        return None

    def _find_values(self, selector: Selector | str) -> list[object]:
        path = _compile(selector)
        return path.find(self._get_json()) if isinstance(path, JsonPath) else []

    def _get_json(self) -> object:
        return self.document.json


class HtmlElement(Element):
    """An element of an HTML page, or the page itself; selectors search inside `node`."""

    __slots__ = ("is_page", "node")
    node: LexborNode  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, document: Document, node: LexborNode, is_page: bool = False) -> None:
        self.document = document
        self.node = node  # pyright: ignore[reportIncompatibleMethodOverride]
        self.is_page = is_page

    @property
    def tag(self) -> str:
        return self.node.tag or ""

    @property
    def key(self) -> object:
        return self.node.mem_id

    def parent(self) -> Element | None:
        above = self.node.parent
        return HtmlElement(self.document, above) if above is not None and above.is_element_node else None

    def select(self, selector: Selector | str) -> list[Element]:
        return [HtmlElement(self.document, node) for node in _compile(selector).select(self)]

    def first(self, selector: Selector | str) -> Element | None:
        node = _compile(selector).first(self)
        return HtmlElement(self.document, node) if node is not None else None

    def select_xpath(self, expression: str) -> list[Element]:
        from pipelines.extract.trees import evaluate_xpath, is_element

        tree = self.document.get_tree(self.node)

        def make(found: object) -> Element:
            if not is_element(found):
                return _make_value(self.document, found)
            node = tree.nodes[found]
            if node.is_comment_node:
                return Value(self.document, (node.comment_content or "").strip())
            return (DataElement if node.tag in _DATA else HtmlElement)(self.document, node)

        return [*map(make, evaluate_xpath(tree.root, expression, tree.names))]

    def text(self) -> str:
        return get_seen_text(self.node, self.document.find_hidden)

    def html(self) -> str:
        return self.document.text if self.is_page else self.node.html or ""

    def attrs(self) -> dict[str, str]:
        return {name: value or "" for name, value in self.node.attributes.items()}

    def _get_attribute(self, name: str) -> str | None:
        attributes = self.node.attributes
        found = next((each for each in (name.lower(), name) if each in attributes), None)  # viewBox of SVG
        return (attributes[found] or "") if found is not None else None

    @property
    def searched(self) -> Searched:
        return self.document.searched

    def page(self) -> HtmlElement:
        return HtmlElement(self.document, self.node.parser.root or self.node, True)

    def at(self, node: LexborNode) -> HtmlElement:
        return HtmlElement(self.document, node)


class DataElement(HtmlElement):
    """A script or style that an XPath has found: its text is its content, as in `string(//script)`."""

    __slots__ = ()

    def text(self) -> str:
        return get_data(self.node).strip()


class TreeElement(Element):
    """An element of an XML page."""

    __slots__ = ("is_page", "tree")

    def __init__(self, document: Document, tree: Any, is_page: bool = False) -> None:
        self.document = document
        self.tree = tree
        self.is_page = is_page

    @property
    def tag(self) -> str:
        return str(self.tree.tag).lower()

    @property
    def key(self) -> object:
        return self.tree

    def parent(self) -> Element | None:
        above = self.tree.getparent()
        return TreeElement(self.document, above) if above is not None else None

    def select(self, selector: Selector | str) -> list[Element]:
        from pipelines.extract.trees import select

        compiled = _compile(selector)
        if isinstance(compiled, JsonPath):
            return []
        found = select(self.tree, compiled.text, self.is_page, self.document.names)
        return [TreeElement(self.document, tree) for tree in found]

    def first(self, selector: Selector | str) -> Element | None:
        return next(iter(self.select(selector)), None)

    def select_xpath(self, expression: str) -> list[Element]:
        from pipelines.extract.trees import evaluate_xpath, get_element_of, is_element

        def make(found: object) -> Element:
            if is_element(found):
                return TreeElement(self.document, found)
            owner = get_element_of(found)
            return _make_value(self.document, found, self.document.find_base(owner) if owner is not None else None)

        return [*map(make, evaluate_xpath(self.tree, expression, self.document.names))]

    def text(self) -> str:
        from pipelines.extract.trees import get_xml_text

        return get_xml_text(self.tree)

    def html(self) -> str:
        from pipelines.extract.trees import format_tree

        return self.document.text if self.is_page else format_tree(self.tree)

    def attrs(self) -> dict[str, str]:
        from pipelines.extract.trees import list_attributes

        return list_attributes(self.tree, self.document.names)

    def _get_attribute(self, name: str) -> str | None:
        attributes = self.attrs()
        found = next((attributes[each] for each in (name, name.lower()) if each in attributes), None)
        if found is None and ":" not in name:  # one with a prefix, like xlink:href
            return next((value for each, value in attributes.items() if each.partition(":")[2] == name), None)
        return found

    def _get_address(self, name: str) -> str | None:
        """Return an attribute, or in XML the text of an element without it."""
        value = self._get_attribute(name)
        is_text = value is None and len(self.tree) == 0
        return self.text() or None if is_text else value

    def _find_base(self) -> str:
        return self.document.find_base(self.tree)


class Value(Element):
    """A value in a JSON page, read like an element: its members are its attributes; or one that an XPath has found.

    `base` is that of relative URLs, by default the document's.
    """

    __slots__ = ("base", "value")
    is_page = False

    def __init__(self, document: Document, value: object, base: str | None = None) -> None:
        self.document = document
        self.value = value
        self.base = base

    def text(self) -> str:
        return jsonpath.format_json(self.value)

    def html(self) -> str:
        return jsonpath.format_json(self.value)

    def attrs(self) -> dict[str, str]:
        if not isinstance(self.value, dict):
            return {}
        members = cast("dict[str, object]", self.value)
        return {name: jsonpath.format_json(member) for name, member in members.items() if member is not None}

    def attr(self, name: str) -> str | None:
        return self._get_attribute(name)

    def _get_attribute(self, name: str) -> str | None:
        return self.attrs().get(name)

    def _get_address(self, name: str) -> str | None:
        """Return a text, or a member of an object."""
        return self.value if isinstance(self.value, str) else self._get_attribute(name)

    def _find_base(self) -> str:
        return self.base or self.document.base_url

    def _get_json(self) -> object:
        return self.value


def _is_linked_data(media_type: str) -> bool:
    return media_type.partition(";")[0].strip().lower() == "application/ld+json"


def _compile(selector: Selector | str) -> Selector:
    return compile_selector(selector) if isinstance(selector, str) else selector


def _make_value(document: Document, found: object, base: str | None = None) -> Value:
    """Return an attribute, text, number or truth value that an XPath has found."""
    return Value(document, normalize_text(str(found)).strip(), base)
