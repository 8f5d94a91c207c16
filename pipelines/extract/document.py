"""Documents: pages in HTML or XML as trees of elements, or JSON values read like elements."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

from selectolax.lexbor import LexborNode

from pipelines.extract import jsonpath
from pipelines.extract.charset import Encoding, decode, find_encoding, find_unknown_label, to_utf8
from pipelines.extract.jsonpath import JsonPath
from pipelines.extract.kinds import Kind, Parser, find_kind, unpack
from pipelines.extract.linked_data import parse_linked_data
from pipelines.extract.parsing import parse_html
from pipelines.extract.patterns import Searched
from pipelines.extract.selectors import Selector, compile_selector
from pipelines.extract.text import get_data, get_text, normalize_text
from pipelines.extract.xml_repair import XmlFault
from pipelines.fetch.page import Page
from pipelines.fetch.urls import MAX_BASE_LENGTH, absolute_url, canonical_url, escape_query


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
    _node_tree: tuple[int | None, Any] = (None, None)  # the element that was last parsed for an XPath
    _node: LexborNode | None = None
    _tree: Any = None
    kind: Kind

    def __init__(self, page: Page, parser: Parser | None = None) -> None:
        media_type, self._body = unpack(page.content_type, page.body, parser)
        self.page = page
        self.searched: Searched = {}
        self.kind = find_kind(media_type, self._body, parser)
        if self.kind == "html":
            self._node = parse_html(to_utf8(self._body, self.encoding)).root
        elif self.kind in ("xhtml", "xml"):
            self._parse_xml(converts=parser is None)
        elif self.kind != "text":
            _ = self.json  # finds its fault

    @property
    def is_html(self) -> bool:
        return self._node is not None

    @cached_property
    def encoding(self) -> Encoding:
        """The encoding of the body."""
        return find_encoding(self._body, self.page.charset, self.kind)

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
    def linked_data(self) -> list[object]:
        """The values of the page's JSON-LD scripts, or of a page that is JSON."""
        if not self.is_html:
            return [self.json] if self.json is not None else []
        scripts = [each.node for each in self.root.select('script[type*="ld+json" i]') if each.node is not None]
        texts = (get_data(each) for each in scripts if _is_linked_data(each.attributes.get("type") or ""))
        return [value for text in texts if (value := parse_linked_data(text)) is not None]

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

    def get_tree(self, element: HtmlElement) -> Any:
        """Return an element of HTML as a tree of lxml; that of the last element is kept."""
        from pipelines.extract.trees import parse_html_tree

        key, tree = self._node_tree
        if tree is None or key != element.node.mem_id:
            node = element.node
            tree = parse_html_tree(node.html or "", node.tag or "")
            self._node_tree = node.mem_id, tree
        return tree

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
                self._node, self._tree = parse_html(format_html(parsed)).root, None
        elif self.kind == "xhtml":
            self._node = parse_html(body).root
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

    def __init__(self, document: Document) -> None:
        self.document = document

    def select(self, selector: Selector | str) -> list[Element]:
        """Return the matching elements inside this one in document order; `:root …` searches the whole page.

        In JSON, return the values of a path, or the items of an array that is the only value.
        """
        found = self._find_values(selector)
        if len(found) == 1 and isinstance(found[0], list):
            found = [item for item in cast("list[object]", found[0]) if item is not None]
        return [Value(self.document, each) for each in found]

    def first(self, selector: Selector | str) -> Element | None:
        found = self._find_values(selector)
        return Value(self.document, found[0]) if found else None

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
        value = self._get_attribute(name)
        return absolute_url(self.document.escape_query(value), self.document.base_url) if value is not None else None

    def link(self, name: str = "href") -> str | None:
        """Return the attribute as a canonical http or https URL; None for other schemes."""
        value = self._get_attribute(name)
        return canonical_url(self.document.escape_query(value), self.document.base_url) if value is not None else None

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

    def select(self, selector: Selector | str) -> list[Element]:
        return [HtmlElement(self.document, node) for node in _compile(selector).select(self)]

    def first(self, selector: Selector | str) -> Element | None:
        node = _compile(selector).first(self)
        return HtmlElement(self.document, node) if node is not None else None

    def select_xpath(self, expression: str) -> list[Element]:
        return _evaluate_xpath(self.document, self.document.get_tree(self), expression)

    def text(self) -> str:
        return get_text(self.node)

    def html(self) -> str:
        return self.document.text if self.is_page else self.node.html or ""

    def attrs(self) -> dict[str, str]:
        return {name: value or "" for name, value in self.node.attributes.items()}

    def _get_attribute(self, name: str) -> str | None:
        attributes, name = self.node.attributes, name.lower()
        return (attributes[name] or "") if name in attributes else None

    @property
    def searched(self) -> Searched:
        return self.document.searched

    def page(self) -> HtmlElement:
        return HtmlElement(self.document, self.node.parser.root or self.node, True)

    def at(self, node: LexborNode) -> HtmlElement:
        return HtmlElement(self.document, node)


class TreeElement(Element):
    """An element of lxml: of an XML page, or a match of an XPath in an HTML page."""

    __slots__ = ("is_page", "tree")

    def __init__(self, document: Document, tree: Any, is_page: bool = False) -> None:
        self.document = document
        self.tree = tree
        self.is_page = is_page

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
        return _evaluate_xpath(self.document, self.tree, expression)

    def text(self) -> str:
        from pipelines.extract.trees import get_html_text, get_xml_text

        return get_html_text(self.tree) if self.document.is_html else get_xml_text(self.tree)

    def html(self) -> str:
        from pipelines.extract.trees import format_tree

        return self.document.text if self.is_page else format_tree(self.tree, self.document.is_html)

    def attrs(self) -> dict[str, str]:
        from pipelines.extract.trees import list_attributes

        return list_attributes(self.tree, self.document.names)

    def absolute(self, name: str) -> str | None:
        """Return an attribute, or in XML the text of an element without it, as an absolute URL."""
        value = self._get_address(name)
        if value is None:
            return None
        return absolute_url(self.document.escape_query(value), self.document.find_base(self.tree))

    def link(self, name: str = "href") -> str | None:
        value = self._get_address(name)
        if value is None:
            return None
        return canonical_url(self.document.escape_query(value), self.document.find_base(self.tree))

    def _get_attribute(self, name: str) -> str | None:
        attributes = self.attrs()
        found = next((attributes[each] for each in (name, name.lower()) if each in attributes), None)
        if found is None and ":" not in name:  # one with a prefix, such as xlink:href
            return next((value for each, value in attributes.items() if each.partition(":")[2] == name), None)
        return found

    def _get_address(self, name: str) -> str | None:
        value = self._get_attribute(name)
        is_text = value is None and not self.document.is_html and len(self.tree) == 0
        return self.text() or None if is_text else value


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

    def absolute(self, name: str) -> str | None:
        """Return a text, or a member of an object, as an absolute URL."""
        value = self.value if isinstance(self.value, str) else self._get_attribute(name)
        if value is None:
            return None
        return absolute_url(self.document.escape_query(value), self.base or self.document.base_url)

    def link(self, name: str = "href") -> str | None:
        value = self.value if isinstance(self.value, str) else self._get_attribute(name)
        if value is None:
            return None
        return canonical_url(self.document.escape_query(value), self.base or self.document.base_url)

    def _get_json(self) -> object:
        return self.value


def _is_linked_data(media_type: str) -> bool:
    return media_type.partition(";")[0].strip().lower() == "application/ld+json"


def _compile(selector: Selector | str) -> Selector:
    return compile_selector(selector) if isinstance(selector, str) else selector


def _evaluate_xpath(document: Document, tree: Any, expression: str) -> list[Element]:
    from pipelines.extract.trees import evaluate_xpath, get_element_of, is_element

    def make(found: object) -> Element:
        if is_element(found):
            return TreeElement(document, found)
        owner = get_element_of(found)
        base = document.find_base(owner) if owner is not None else None
        return Value(document, normalize_text(str(found)).strip(), base)

    return [*map(make, evaluate_xpath(tree, expression, document.names))]
