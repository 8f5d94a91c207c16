"""Pages as clean text: Markdown without menus and banners, and the article with its author, date and language."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any, TypeVar

from selectolax.lexbor import LexborHTMLParser, LexborNode

from pipelines.extract.document import Element, HtmlElement
from pipelines.extract.parsing import try_in_fork
from pipelines.extract.patterns import SelectorFailed
from pipelines.extract.text import is_hidden

ARTICLE_TYPE = "struct<title:string,author:string,date:date,site:string,language:string,text:string>"

Made = TypeVar("Made")
_LARGE = 1024 * 1024  # characters of HTML, or _MANY tags: such pages are tried in a process that can be ended
_MANY = 8000
_LARGEST = 20 * 1024 * 1024
_DEEPEST = 400  # levels of elements, beyond which the libraries would recurse too deep
_NEVER_TEXT = (
    "script,style,noscript,template,svg,iframe,object,embed,canvas,link,meta,button,input,select,textarea,datalist,"
    "dialog,[aria-hidden=true],a.headerlink,a.anchor"
)
_AROUND_TEXT = (
    "nav,aside,footer,menu,form,[role=navigation],[role=banner],[role=contentinfo],[role=complementary],[role=search],"
    "[role=dialog],[role=alertdialog],[role=menu]"
)
_AROUND_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|side-?bar|breadcrumbs?|footer|cookies?|consent|gdpr|banner|share|"
    r"sharing|sharebar|addthis|social|related|newsletter|subscribe|subscription|promos?|ads?|advert\w*|sponsor\w*|popup|"
    r"modal|comments?|disqus|recommend\w*|recirc\w*|masthead|pagination|pager|skip-?links?|tags|widgets?|outbrain|"
    r"taboola|trending|most-read|more-stories|read-more|popular|authors?|bio|byline|meta|credit|toolbar|signup|login|search|print|sr-only|visually-hidden|"
    r"screen-reader\w*|copyright|disclaimer)(?:$|[\s_-])",
    re.IGNORECASE,
)
_TEXT_PARTS = "main,article,[role=main],[itemprop=articleBody]"
_WHOLE_PARTS = frozenset(("html", "body", "main", "article"))
_LINKS = 0.7  # of the characters of a block, from which on it is a menu
_NEARLY = 0.95  # of the prose
_DECLARED = 0.2  # of the characters
_BLOCKS = frozenset(("div", "main", "article", "section", "form"))
_SHORT = 20  # characters, for which the share of links says nothing


def to_markdown(element: Element) -> str | None:
    """Return an element as Markdown with absolute links; of a page, its main part. Raises SelectorFailed."""
    is_whole = not isinstance(element, HtmlElement) or element.is_page
    return html_to_markdown(element.html(), element.document.base_url, is_whole)


def html_to_markdown(html: str, url: str, is_whole: bool = False) -> str | None:
    """Return HTML as Markdown, None for one without text; links are resolved against `url`. Raises SelectorFailed."""
    return _read_bounded(html, "as Markdown", lambda: _convert(html, url, is_whole))


def _convert(html: str, url: str, is_whole: bool) -> str | None:
    from html_to_markdown import ConversionOptions, convert

    parsed = LexborHTMLParser(html)
    if parsed.body is None:
        return None
    main = _prune(parsed.body, is_whole)
    options = ConversionOptions(
        extract_metadata=False, base_url=url or None, bullets="-", autolinks=False, max_depth=_DEEPEST
    )
    return (convert(main.html or "", options).content or "").strip() or None


def read_article(element: Element) -> dict[str, object] | None:
    """Return title, author, date, site, language and text of the article; None without one. Raises SelectorFailed."""
    return html_to_article(element.html(), element.document.base_url)


def html_to_article(html: str, url: str) -> dict[str, object] | None:
    return _read_bounded(html, "as an article", lambda: _extract(html, url))


def _extract(html: str, url: str) -> dict[str, object] | None:
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # what it cannot read has no article
    found: Any = trafilatura.bare_extraction(html, url=url or None, include_comments=False, with_metadata=True)
    if found is None or not found.text:
        return None
    root = LexborHTMLParser(html).root
    language = (root.attributes.get("lang") or "").strip() if root is not None else ""
    return {
        "title": found.title,
        "author": found.author,
        "date": date.fromisoformat(found.date) if found.date else None,
        "site": found.sitename,
        "language": language or found.language,
        "text": found.text,
    }


def _read_bounded(html: str, purpose: str, read: Callable[[], Made]) -> Made:
    """Return what `read` makes of the HTML; raise SelectorFailed if that takes too much time or memory, or fails."""
    if len(html) > _LARGEST:
        raise SelectorFailed(f"the page cannot be read {purpose}: it has more than {_LARGEST >> 20} MiB")
    try:
        if (len(html) > _LARGE or html.count("<") > _MANY) and (fault := try_in_fork(read, f"to be read {purpose}")):
            raise SelectorFailed(f"the page cannot be read {purpose}: it {fault}")
        return read()
    except (MemoryError, SelectorFailed):
        raise
    except Exception as error:  # whatever the library stumbles over, only this page fails
        raise SelectorFailed(f"the page cannot be read {purpose}: {type(error).__name__}: {error}") from error


def _prune(body: LexborNode, is_whole: bool) -> LexborNode:
    """Return the part with the text, without what is not text; of a whole page, without what is around the text."""
    for node in body.css(_NEVER_TEXT):
        node.decompose()
    for node in body.css('[hidden], [style*="display" i]'):
        if is_hidden(node.attributes):
            node.decompose()
    if not is_whole:
        return body
    total, prose = _measure(body), _measure_prose(body)
    for node in body.css(_AROUND_TEXT):
        if node.tag != "form" or 3 * _measure(node) < total:  # some systems put the whole page into a form
            node.decompose()
    total = _measure(body)
    for node in body.css("[class],[id]"):
        names = f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}"
        if not _AROUND_NAMES.search(names) or node.tag in _WHOLE_PARTS:
            continue
        size = 3 * _measure(node)
        if size < total and (size < prose or 3 * _measure_prose(node) < prose):
            node.decompose()
    main = _find_main(body)
    for node in main.css("a"):  # icons that styles draw, whose addresses would be their text
        if not node.text(strip=True) and node.css_first("img,picture") is None:
            node.decompose()
    for node in main.css("header"):
        if node.css_first("h1") is None:
            node.decompose()
    for node in reversed(main.css("ul,ol,div,section,table")):  # menus before the blocks that have them beside the text
        size, linked = _measure(node), sum(map(_measure, node.css("a")))
        if linked > _SHORT and linked > _LINKS * size and size < _measure(main):
            node.decompose()
    return _narrow(main)


def _narrow(main: LexborNode) -> LexborNode:
    """Return the innermost element with the text, and the headline if there is one, without what follows the text."""
    headline, text = main.css_first("h1"), _find_text(main)
    inner = text
    while inner.mem_id != main.mem_id and inner.parent is not None:
        if headline is None or inner.css_first("h1") is not None:
            break
        while inner.next is not None:
            inner.next.decompose()
        inner = inner.parent
    return inner


def _find_text(main: LexborNode) -> LexborNode:
    """Return the one element that says that it has the text, or the innermost with nearly all of the prose."""
    prose, declared = _measure_prose(main), main.css("[itemprop=articleBody]")
    if len(declared) == 1 and _measure(declared[0]) > _DECLARED * _measure(main):
        return declared[0]
    text = main
    while 2 * prose > _measure(text):  # else the paragraphs are other elements
        blocks = (each for each in text.iter() if each.tag in _BLOCKS and _measure(each) >= _NEARLY * prose)
        inner = next((each for each in blocks if _measure_prose(each) >= _NEARLY * prose), None)
        if inner is None:
            break
        text = inner
    return text


def _find_main(body: LexborNode) -> LexborNode:
    """Return the innermost part that says of itself that it has the text, if it has most of the paragraphs."""
    parts = [(sum(map(_measure, node.css("p,pre,li,td"))), node) for node in body.css(_TEXT_PARTS)]
    most = max((size for size, _ in parts), default=0)
    if most <= 0.4 * sum(map(_measure, body.css("p,pre,li,td"))):
        return body
    main, *others = (node for size, node in parts if size >= 0.8 * most)
    for node in others:  # those beside the first one are other articles
        if any(each.mem_id == main.mem_id for each in _iter_parents(node)):
            main = node
    return main


def _iter_parents(node: LexborNode) -> Iterator[LexborNode]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _measure_prose(node: LexborNode) -> int:
    """Return the characters of paragraphs, items and cells that are no links."""
    return sum(map(_measure, node.css("p,pre,li,td"))) - sum(map(_measure, node.css("p a,pre a,li a,td a")))


def _measure(node: LexborNode) -> int:
    return len(node.text(strip=True))
