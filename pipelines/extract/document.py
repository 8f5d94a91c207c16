"""Documents: pages as trees of elements, or JSON values read like elements."""

from __future__ import annotations

import re
from functools import cached_property
from typing import cast

from selectolax.lexbor import LexborNode

from pipelines.extract import jsonpath
from pipelines.extract.charset import decode, to_utf8
from pipelines.extract.jsonpath import JsonPath
from pipelines.extract.parsing import parse_html
from pipelines.extract.patterns import Searched
from pipelines.extract.selectors import Selector, compile_selector
from pipelines.extract.text import get_text, normalize_text
from pipelines.fetch.page import Page
from pipelines.fetch.urls import MAX_BASE_LENGTH, absolute_url, canonical_url

_HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
# What an answer without a type begins with when it is HTML (WHATWG MIME Sniffing, section 7.1).
_HTML_START = re.compile(
    rb"(?i)(?:\xef\xbb\xbf)?\s*<"
    rb"(?:!--|(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\s>])"
)


class Document:
    """A page; HTML is parsed at once, JSON on first use.

    A page that is not HTML has no elements but its text and, if it is JSON, values. Raises PageTooComplex.
    """

    def __init__(self, page: Page) -> None:
        kind, body = page.content_type, page.body
        self.page = page
        self.searched: Searched = {}
        self.is_html = kind in _HTML_TYPES if kind else _HTML_START.match(body) is not None
        self._node = parse_html(to_utf8(body, page.charset)).root if self.is_html else None

    @property
    def text(self) -> str:
        """The decoded body."""
        return decode(self.page.body, self.page.charset)

    @property
    def root(self) -> Element:
        """The element of the whole page."""
        return HtmlElement(self, self._node, True) if self._node is not None else Element(self)

    @cached_property
    def json(self) -> object:
        """The value of a JSON body, else None."""
        return None if self.is_html else jsonpath.parse_json(self.text)

    @cached_property
    def base_url(self) -> str:
        """The base of relative URLs: the first <base href>, else the URL of the page.

        A base above MAX_BASE_LENGTH is ignored, since every URL on the page would repeat it.
        """
        element, url = self.root.first("base[href]"), self.page.url
        href = element.attr("href") if element else None
        base = absolute_url(href, url) if href else None
        return base if base and len(base) <= MAX_BASE_LENGTH else url


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
        return absolute_url(value, self.document.base_url) if value is not None else None

    def link(self, name: str = "href") -> str | None:
        """Return the attribute as a canonical http or https URL; None for other schemes."""
        value = self._get_attribute(name)
        return canonical_url(value, self.document.base_url) if value is not None else None

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


class Value(Element):
    """A value in a JSON page, read like an element: its members are its attributes."""

    __slots__ = ("value",)
    is_page = False

    def __init__(self, document: Document, value: object) -> None:
        self.document = document
        self.value = value

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
        return absolute_url(value, self.document.base_url) if value is not None else None

    def link(self, name: str = "href") -> str | None:
        value = self.value if isinstance(self.value, str) else self._get_attribute(name)
        return canonical_url(value, self.document.base_url) if value is not None else None

    def _get_json(self) -> object:
        return self.value


def _compile(selector: Selector | str) -> Selector:
    return compile_selector(selector) if isinstance(selector, str) else selector
