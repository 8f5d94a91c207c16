"""Trees of lxml: XML documents with CSS selectors, and XPath. Imported only where a page needs it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from html.entities import html5
from itertools import islice
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr, unescape

from cssselect import GenericTranslator, SelectorError
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  (it is compiled)

from pipelines.extract.parsing import try_in_fork
from pipelines.extract.patterns import SelectorFailed
from pipelines.extract.text import normalize_text
from pipelines.extract.xml_faults import VOID_ELEMENTS, XmlFault, XmlTooComplex
from pipelines.fetch.urls import MAX_BASE_LENGTH, absolute_url

Tree = Any  # an element of lxml, which has no types

_SMALL_TREE = 500  # elements; on so few, an XPath of three nested searches takes half a second
_NAME = r"[\w-]+(?::[\w-]+)?"
_TEST = rf"@{_NAME}(?: ?= ?(?:\"[^\"]*\"|'[^']*'))?"
_SIMPLE_PREDICATE = (
    rf"\d+|{_TEST}(?: and {_TEST})*|(?:contains|starts-with)\(@{_NAME}, ?(?:\"[^\"]*\"|'[^']*')\)"
    r"|position\(\) = 1|not\(parent::\*\)"
)
_SIMPLE_STEP = rf"(?:@?(?:{_NAME}|\*)|text\(\))(?:\[(?:{_SIMPLE_PREDICATE})\])*"
# Takes time in proportion to the tree: one search for descendants, and predicates of attributes only.
_SIMPLE_XPATH = re.compile(rf"(?:\.?//?|descendant(?:-or-self)?::)?{_SIMPLE_STEP}(?:/{_SIMPLE_STEP})*+")
_LOOKS_AROUND = re.compile(r"^\(*/|[(|\[,=]\s*/|\.\.|(?:parent|ancestor|following|preceding)[\w-]*\s*::")
_MAX_TAGS = 2_000_000  # `<` in an XML document; a sitemap of 50,000 addresses has a tenth of them
_DECLARED_NAME = re.compile(rb"""\sxmlns:([\w.\-\x80-\xff]+)\s*=\s*["']([^"'<]+)["']""")
_XML = "http://www.w3.org/XML/1998/namespace"
_XML_BASE = f"{{{_XML}}}base"
_XHTML_ROOT = "{http://www.w3.org/1999/xhtml}html"
_RAW = frozenset(("script", "style", "iframe", "noembed", "noframes", "xmp"))
_PREFORMATTED = frozenset(("pre", "textarea", "listing"))
_UNDECLARED = re.compile("Entity '(.*)' not defined")
_LITERAL = re.compile(r""":contains\(\s*([^"'()]+?)\s*\)""")
_JSOUP_PATTERN = re.compile(r"(?i):matches|~=")  # means something else in CSS
# of an attribute, which is no identifier; texts in quotes are passed over
_UNQUOTED = re.compile(r"""("[^"]*"|'[^']*')|([*^$|!~]?=)\s*([^\s"'\]]+)(?=\s*(?:\s[is]\s*)?\])""")
_LEADING = re.compile(r"(^|,)\s*(?=[>+~])")
_translator = GenericTranslator()


Names = tuple[tuple[str, str], ...]  # the prefixes of an XML document, each with its namespace


class XmlTree(NamedTuple):
    """The root of an XML document, its first fault if it was repaired, its prefixes, whether it has xml:base, and
    whether it is a page of XHTML.
    """

    root: Tree
    fault: str | None
    names: Names
    has_bases: bool
    is_xhtml: bool


def parse_xml(body: bytes) -> XmlTree | None:
    """Parse XML in UTF-8, repaired if it is not well-formed; None without an element.

    Nothing outside of the document is read. Elements of a default namespace have plain names. Raises XmlFault for a
    document that ends early or exceeds limits.
    """
    if body.count(b"<") > _MAX_TAGS:
        raise XmlTooComplex(f"its XML has more than {_MAX_TAGS:,} tags")
    fault, parser, text = None, _make_parser(body), body
    try:
        root = _parse_strictly(body, parser)
    except etree.XMLSyntaxError as error:
        from pipelines.extract.xml_repair import repair_xml  # whose patterns take long to compile

        text = repair_xml(body.decode("utf-8", "replace")).encode()
        if not text:
            return None
        fault = None if _has_known_entities(parser) else f"its XML is not well-formed and was repaired: {error.msg}"
        try:
            root = _parse_strictly(text, _make_parser(text))
        except etree.XMLSyntaxError as again:
            raise XmlFault(f"its XML cannot be repaired: {again.msg}") from None
    is_xhtml = root.tag == _XHTML_ROOT
    for element in root.iter(etree.Element):
        if element.prefix is None and element.tag[0] == "{":
            element.tag = etree.QName(element).localname
    etree.cleanup_namespaces(root)
    return XmlTree(root, fault, _find_names(root, text), b"xml:base" in text, is_xhtml)


def _find_names(root: Tree, text: bytes) -> Names:
    """Return the prefixes that any element declares; all elements of a prefix get its first namespace."""
    names, others = dict[str, str](), dict[str, str]()
    for prefix, namespace in dict.fromkeys(_DECLARED_NAME.findall(text) if b"xmlns:" in text else ()):
        first = names.setdefault(prefix.decode(), unescape(namespace.decode()))
        others[unescape(namespace.decode())] = first
    if any(namespace != first for namespace, first in others.items()):
        for element in root.iter(etree.Element):
            element.tag = _rename(element.tag, others)
            for name in [each for each in element.attrib if each[0] == "{"]:
                if (renamed := _rename(name, others)) != name:
                    element.attrib[renamed] = element.attrib.pop(name)
    return tuple(names.items())


def format_html(document: XmlTree) -> bytes:
    """Return a page of XHTML as HTML in UTF-8; libxml2's own serializer changes addresses."""
    parts = ["<!DOCTYPE html>"]
    walker: Any = etree.iterwalk(document.root, events=("start", "end", "comment"))
    for event, node in walker:
        tail = node.tail or "" if node is not document.root else ""
        if event == "comment":
            parts.append(f"<!--{node.text or ''}-->{escape(tail)}")
            continue
        name = f"{node.prefix}:{etree.QName(node).localname}" if node.prefix else node.tag
        if event == "start":
            attributes = list_attributes(node, document.names).items()
            parts.append(f"<{name}{''.join(f' {each}={quoteattr(value)}' for each, value in attributes)}>")
            text = node.text or ""
            first = "\n" if name in _PREFORMATTED and text.startswith("\n") else ""  # which parsers drop
            parts.append(text if name in _RAW else first + escape(text))
        else:
            parts.append(f"{'' if name in VOID_ELEMENTS else f'</{name}>'}{escape(tail)}")
    return "".join(parts).encode()


def _rename(name: str, namespaces: dict[str, str]) -> str:
    namespace, separator, local = name[1:].partition("}")
    return f"{{{namespaces.get(namespace, namespace)}}}{local}" if separator else name


def find_base(tree: Tree, url: str) -> str:
    """Return the base of relative URLs in an element of XML by the attributes xml:base (W3C XML Base)."""
    bases = [base for each in (tree, *tree.iterancestors()) if (base := each.get(_XML_BASE))]
    for base in reversed(bases):
        absolute = absolute_url(base.strip(), url)
        url = absolute if absolute and len(absolute) <= MAX_BASE_LENGTH else url
    return url


def list_attributes(tree: Tree, names: Names) -> dict[str, str]:
    """Return the attributes of an element; one with a namespace by its prefix, as `xml:lang`."""
    prefixes: dict[str, str] | None = None
    found: dict[str, str] = {}
    for name, value in tree.attrib.items():
        if name[0] == "{":
            prefixes = prefixes or {namespace: prefix for prefix, namespace in (*names, *tree.nsmap.items() & {*names})}
            namespace, _, local = name[1:].partition("}")
            name = f"{'xml' if namespace == _XML else prefixes.get(namespace, '')}:{local}".lstrip(":")
        found[name] = value
    return found


def _make_parser(body: bytes) -> Any:
    """Return a parser of well-formed XML in UTF-8 that reads nothing outside of the document."""
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities="internal",
        no_network=True,
        load_dtd=False,
        remove_pis=True,
        huge_tree=b"<!ENTITY" not in body,  # which lifts the limit of expansion too
    )


def _parse_strictly(body: bytes, parser: Any) -> Tree:
    """Parse well-formed XML; raise XMLSyntaxError, or XmlTooComplex where entities or levels exceed a limit."""
    try:
        return etree.fromstring(body, parser)
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_RESOURCE_LIMIT:
            raise XmlTooComplex(f"its XML exceeds a limit: {error.msg}") from None
        raise


def _has_known_entities(parser: Any) -> bool:
    """Return whether the only faults are entities of HTML that a document type outside of the document declares."""
    faults = [(each.type, _UNDECLARED.match(each.message)) for each in parser.error_log]
    return all(
        type_ == etree.ErrorTypes.WAR_UNDECLARED_ENTITY and name and f"{name[1]};" in html5 for type_, name in faults
    )


def select(tree: Tree, css: str, is_root: bool, names: Names = ()) -> list[Tree]:
    """Return the matches of CSS inside the element in document order, for a root including itself.

    Raises SelectorFailed for a selector that works only in HTML.
    """
    if css.startswith(":root"):
        tree, is_root = tree.getroottree().getroot(), True
    found = _evaluate(tree, _translate_css(css, is_root), names)
    return found if is_root else [each for each in found if each is not tree]


def evaluate_xpath(tree: Tree, expression: str, names: Names = ()) -> list[object]:
    """Return the results of an XPath: elements and texts; raises SelectorFailed."""
    found = _evaluate(tree, expression, names)
    if isinstance(found, list):
        return [item for item in found if not isinstance(item, tuple)]  # tuples are namespaces
    if isinstance(found, bool):
        return ["true" if found else "false"]
    if isinstance(found, float):
        return [str(int(found)) if found.is_integer() else str(found)] if found == found else []
    return [found] if found else []


def check_xpath(expression: str) -> str | None:
    """Return the fault of an XPath, None if it parses."""
    try:
        etree.XPath(expression, regexp=False)
    except etree.XPathError as error:
        return str(error)
    return None


def get_element_of(text: Any) -> Tree | None:
    """Return the element in which an XPath has found an attribute or a text; None for a computed one."""
    element = text.getparent() if isinstance(text, etree._ElementUnicodeResult) else None  # pyright: ignore[reportPrivateUsage]
    return element.getparent() if element is not None and getattr(text, "is_tail", False) else element


def is_element(item: object) -> bool:
    return isinstance(item, etree._Element)  # pyright: ignore[reportPrivateUsage]


def get_xml_text(tree: Tree) -> str:
    """Return the text inside an element of XML, white space collapsed and trimmed."""
    return normalize_text(etree.tostring(tree, method="text", encoding="unicode", with_tail=False)).strip()


def format_tree(tree: Tree) -> str:
    return etree.tostring(tree, encoding="unicode", with_tail=False)


def _evaluate(tree: Tree, expression: str, names: Names) -> Any:
    try:
        find = _compile(expression, names)
        _try_evaluation(find, tree, expression)
        return find(tree)
    except etree.XPathError as error:
        if "namespace prefix" in str(error):  # the page does not have these names
            return []
        raise SelectorFailed(f"'{expression}' cannot be evaluated on the page: {error}") from None


def _try_evaluation(find: Callable[[Tree], object], tree: Tree, expression: str) -> None:
    """Raise SelectorFailed if the XPath takes too long; one that may is tried in a process that can be stopped."""
    if _SIMPLE_XPATH.fullmatch(expression):
        return
    searched = tree.getroottree() if _LOOKS_AROUND.search(expression) else tree
    if next(islice(searched.iter(), _SMALL_TREE, None), None) is None:
        return

    def evaluate() -> None:
        with suppress(etree.XPathError):  # the evaluation in this process raises it too
            find(tree)

    if fault := try_in_fork(evaluate, "on the page"):
        raise SelectorFailed(f"'{expression}' {fault}")


@lru_cache(maxsize=1024)
def _compile(expression: str, namespaces: Names) -> Any:
    return etree.XPath(expression, namespaces=dict(namespaces), regexp=False)


@lru_cache(maxsize=1024)
def _translate_css(css: str, is_root: bool) -> str:
    """Return the XPath of a selector in CSS with jsoup's literal :contains() and leading combinators."""
    if _JSOUP_PATTERN.search(css):
        raise SelectorFailed(f"the selector '{css}' has a regular expression, which cannot be used on XML")
    text = _LITERAL.sub(r':contains("\1")', _LEADING.sub(r"\1:scope ", css))
    text = _UNQUOTED.sub(lambda found: found[1] or f'{found[2]}"{found[3]}"', text)
    axis = "descendant-or-self::" if is_root or ":scope" in text else "descendant::"
    try:
        return _translator.css_to_xpath(text, axis)
    except SelectorError as error:
        raise SelectorFailed(f"the selector '{css}' cannot be used on XML: {error}") from None
