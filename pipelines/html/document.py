"""A page as elements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from selectolax.lexbor import LexborHTMLParser, LexborNode

from pipelines.fetch.page import Page
from pipelines.fetch.urls import absolute_url, canonical_url
from pipelines.html import jsonpath
from pipelines.html.charset import decode, to_utf8
from pipelines.html.depth import bounded
from pipelines.html.jsonpath import JsonPath
from pipelines.html.matching import Scope
from pipelines.html.selectors import Selector, compile_selector
from pipelines.html.text import normalised, text_of

_HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
# What an answer without a type begins with when it is HTML (WHATWG MIME Sniffing, section 7.1).
_HTML_START = re.compile(
    rb"(?i)(?:\xef\xbb\xbf)?\s*<"
    rb"(?:!--|(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\s>])"
)


class Document:
    """A page, decoded and parsed when it is first looked into.

    One that is not HTML has no elements, only its text, and where that is JSON the values in it.
    """

    __slots__ = ("_base", "_json", "_node", "_parsed", "page")

    def __init__(self, page: Page) -> None:
        self.page = page
        self._parsed = False
        self._node: LexborNode | None = None
        self._base: str | None = None
        self._json: tuple[object] | None = None

    @property
    def text(self) -> str:
        """The body, decoded."""
        return decode(self.page.body, self.page.charset)

    @property
    def is_html(self) -> bool:
        kind = self.page.content_type
        return kind in _HTML_TYPES if kind else _HTML_START.match(self.page.body) is not None

    @property
    def root(self) -> Element:
        """The page itself."""
        if not self._parsed:
            self._parsed = True
            self._node = _parsed(self.page) if self.is_html else None
        return Element(self, self._node, True)

    @property
    def json(self) -> object:
        """The value of a body that is JSON; None for any other page."""
        if self._json is None:
            self._json = (None if self.is_html else jsonpath.parse(self.text),)
        return self._json[0]

    @property
    def base_url(self) -> str:
        """What addresses on the page are relative to: its first <base href>, else its own address."""
        if self._base is None:
            body = self.page.body
            # few pages have one, and to look for the bytes is far quicker; UTF-16 is full of NULs
            base = self.root.first("base[href]") if b"<base" in body.lower() or b"\0" in body[:64] else None
            href = base.attr("href") if base else None
            self._base = (absolute_url(href, self.page.url) if href else None) or self.page.url
        return self._base

    def absolute(self, url: str) -> str | None:
        return absolute_url(url, self.base_url)


def _parsed(page: Page) -> LexborNode | None:
    return LexborHTMLParser(bounded(to_utf8(page.body, page.charset))).root


class Element:
    """An element of a page, or the page itself. Made by Document and by selecting."""

    __slots__ = ("_scope", "document", "is_page", "node")

    def __init__(self, document: Document, node: LexborNode | None, is_page: bool = False) -> None:
        self.document = document
        self.node = node
        self.is_page = is_page
        self._scope: Scope | None = None

    def select(self, selector: Selector | str) -> list[Element]:
        """The elements inside this one that `selector` means, in document order; `:root …` means from the page."""
        scope = self._scope or self._made_scope()
        if scope is None:
            return list(self._values(_compiled(selector)))
        return [Element(self.document, node) for node in _compiled(selector).select(scope)]

    def first(self, selector: Selector | str) -> Element | None:
        scope = self._scope or self._made_scope()
        if scope is None:
            return self._first_value(_compiled(selector))
        node = _compiled(selector).first(scope)
        return Element(self.document, node) if node is not None else None

    def text(self) -> str:
        """White space collapsed, line breaks and block boundaries a space, trimmed."""
        return text_of(self.node) if self.node is not None else normalised(self.document.text).strip()

    def html(self) -> str:
        """The element with its tag; of a page, its whole text as it came."""
        return self.document.text if self.is_page or self.node is None else self.node.html or ""

    def attrs(self) -> dict[str, str]:
        """All attributes; one without a value is an empty text."""
        if self.node is None:
            return {}
        return {name: value or "" for name, value in self.node.attributes.items()}

    def attr(self, name: str) -> str | None:
        """The attribute's value, None without it; `abs:href` is the value of href as an absolute address."""
        if name.startswith("abs:"):
            return self.absolute(name[4:])
        return self.attrs().get(name.lower())

    def absolute(self, name: str) -> str | None:
        """The attribute as an absolute address, of any scheme; None without it."""
        value = self.attr(name)
        return self.document.absolute(value) if value is not None else None

    def link(self, name: str = "href") -> str | None:
        """The canonical http or https address that the attribute leads to; None when it leads to none."""
        value = self.attr(name)
        return canonical_url(value, self.document.base_url) if value is not None else None

    def _made_scope(self) -> Scope | None:
        """Where selectors look; made once, for most elements are asked for several."""
        if self.node is not None:
            self._scope = Scope(self.node, self.is_page, self.document.absolute)
        return self._scope

    def _json_value(self) -> object:
        return self.document.json

    def _values(self, selector: Selector) -> Iterator[Value]:
        """The JSON values that are meant; the items of an array that is meant alone."""
        found = selector.find(self._json_value()) if isinstance(selector, JsonPath) else []
        if len(found) == 1 and isinstance(found[0], list):
            found = [item for item in cast("list[object]", found[0]) if item is not None]
        return (Value(self.document, each) for each in found)

    def _first_value(self, selector: Selector) -> Value | None:
        found = selector.find(self._json_value()) if isinstance(selector, JsonPath) else []
        return Value(self.document, found[0]) if found else None


class Value(Element):
    """A value in a JSON page, read like an element: its members are its attributes."""

    __slots__ = ("value",)

    def __init__(self, document: Document, value: object) -> None:
        super().__init__(document, None)
        self.value = value

    def text(self) -> str:
        return jsonpath.shown(self.value)

    def html(self) -> str:
        return jsonpath.shown(self.value)

    def attrs(self) -> dict[str, str]:
        if not isinstance(self.value, dict):
            return {}
        members = cast("dict[str, object]", self.value)
        return {name: jsonpath.shown(member) for name, member in members.items() if member is not None}

    def attr(self, name: str) -> str | None:
        return self.attrs().get(name)

    def absolute(self, name: str) -> str | None:
        """A text is an address itself; of an object it is the member of that name."""
        value = self.value if isinstance(self.value, str) else self.attr(name)
        return self.document.absolute(value) if value is not None else None

    def link(self, name: str = "href") -> str | None:
        value = self.value if isinstance(self.value, str) else self.attr(name)
        return canonical_url(value, self.document.base_url) if value is not None else None

    def _json_value(self) -> object:
        return self.value


def _compiled(selector: Selector | str) -> Selector:
    return compile_selector(selector) if isinstance(selector, str) else selector
