"""Pages as clean text: Markdown without menus and banners, and the article with its author, date and language."""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Literal, TypeVar

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
_REMARKS = "main aside,article aside,[role=main] aside"  # in the text, as warnings
_WORD = re.compile(r"[a-z]+|[A-Z](?:[a-z]+|[A-Z]*(?![a-z]))")
_VARIANT = re.compile(r"(?<!\S)\S+:")  # when a class counts, as in `print:block`
_NAMES = (
    "nav navbar navigation menu sidebar breadcrumb breadcrumbs footer cookie cookies consent gdpr banner share "
    "sharing sharebar addthis social related newsletter subscribe subscription promo promos ad ads advert adverts "
    "advertise advertisement advertisements advertising sponsor sponsors sponsored popup modal comment comments "
    "disqus recommend recommended recommendation recommendations recirc recirculation masthead pagination pager "
    "skiplink skiplinks tags widget widgets outbrain taboola trending popular author authors bio byline meta "
    "credit toolbar signup login search print copyright disclaimer side-bar skip-link skip-links most-read "
    "more-stories read-more sr-only visually-hidden screen-reader screen-readers"
)
_AROUND_NAMES = frozenset(_NAMES.split())
_AROUND_ARTICLE = _AROUND_NAMES | {"gallery", "teaser", "teasers", "timestamp", "dateline", "published"}
_TEXT_PARTS = "main,article,[role=main],[itemprop=articleBody]"
_ARTICLE = 'meta[property="og:type"][content="article" i]'
_NEVER_AROUND = frozenset(("html", "body", "main", "article", "table"))
_HEADED = frozenset(("section", "h1", "h2", "h3", "h4", "h5", "h6", "dt"))  # their ids say what they are about
_FEW = 1 / 3  # of the text
_LINKS = 0.7  # of the characters of a block, from which on it is a menu
_MOST = 0.7  # of the prose, in an article
_NEARLY = 0.95  # of the prose of other pages, and of the data
_LONG = 40  # characters of a paragraph; shorter ones are lines of teasers
_MAX_PARTS = 200  # of a page, that are compared
_UNTITLED = 0.4  # of the content, for a part to be the main one
_TITLED = 0.2  # the same with the headline
_BETWEEN = 0.1  # of the text
_DECLARED = 0.2  # of the characters
_BLOCKS = frozenset(("div", "main", "article", "section", "form"))
_CAPTION = 50  # characters of a picture's text that its caption has too
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
    _remove_unseen(parsed.body)
    main = _prune(parsed.body, parsed.css_first(_ARTICLE) is not None) if is_whole else parsed.body
    options = ConversionOptions(
        extract_metadata=False, base_url=url or None, bullets="-", autolinks=False, max_depth=_DEEPEST
    )
    text = (convert(main.html or "", options).content or "").strip()
    if not text and main.text(strip=True):
        raise SelectorFailed(f"the page cannot be read as Markdown: its text is below {_DEEPEST} levels of elements")
    return text or None


def read_article(element: Element) -> dict[str, object] | None:
    """Return title, author, date, site, language and text of the article; None without one. Raises SelectorFailed."""
    return html_to_article(element.html(), element.document.base_url)


def html_to_article(html: str, url: str) -> dict[str, object] | None:
    return _read_bounded(html, "as an article", lambda: _extract(html, url))


def _extract(html: str, url: str) -> dict[str, object] | None:
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # a page that it cannot read has no article
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

    def attempt() -> None:
        with suppress(SelectorFailed):  # raised again by the reading below
            read()

    if len(html) > _LARGEST:
        raise SelectorFailed(f"the page cannot be read {purpose}: it has more than {_LARGEST >> 20} MiB")
    try:
        if (len(html) > _LARGE or html.count("<") > _MANY) and (fault := try_in_fork(attempt, f"to be read {purpose}")):
            raise SelectorFailed(f"the page cannot be read {purpose}: it {fault}")
        return read()
    except (MemoryError, SelectorFailed):
        raise
    except Exception as error:  # for any error of the library, only this page fails
        raise SelectorFailed(f"the page cannot be read {purpose}: {type(error).__name__}: {error}") from error


def _remove_unseen(body: LexborNode) -> None:
    for node in body.css(_NEVER_TEXT):
        node.decompose()
    for node in body.css('[hidden], [style*="display" i]'):
        if is_hidden(node.attributes):
            node.decompose()


def _prune(body: LexborNode, is_article: bool) -> LexborNode:
    """Return the part of a page with the text, without the menus and blocks around it."""
    total, prose = _measure(body), _measure_prose(body)
    remarks = {
        each.mem_id for each in body.css(_REMARKS) if sum(map(_measure, each.css("a"))) <= _LINKS * _measure(each)
    }
    for node in reversed(body.css(_AROUND_TEXT)):
        is_whole = node.tag == "form" and 3 * _measure(node) >= total  # some systems put the whole page into a form
        if not is_whole and node.mem_id not in remarks:
            node.decompose()
    _remove_named(body, prose, is_article)
    weights = _Weights(body)
    main = _find_main(body, weights)
    for node in main.css("a"):  # icons that styles draw, whose addresses would be their text
        if not node.text(strip=True) and node.css_first("img,picture") is None:
            node.decompose()
    for node in main.css("header"):
        if node.css_first("h1") is None:
            weights.remove(node)
    for node in reversed(main.css("ul,ol,div,section,table")):  # menus before the blocks with them beside the text
        size, linked = _measure(node), weights.links[node.mem_id]
        if linked > _SHORT and linked > _LINKS * size and size < _measure(main):
            weights.remove(node)
    text = _narrow(main, _find_text(main, weights, is_article), is_article)
    _blank_repeated_captions(text)
    return text


def _remove_named(body: LexborNode, prose: int, is_article: bool) -> None:
    """Remove small elements whose names say that they are around the text, which has `prose`.

    A word says so only where all elements with it have little of the text, in an article not nearly all: posts of a
    forum are `comment`s, and each block of some systems is a `widget`.
    """
    total = _measure(body)

    def are_small(nodes: list[LexborNode], share: float) -> bool:
        size = sum(map(_measure, nodes))
        return size < share * total and (size < share * prose or sum(map(_measure_prose, nodes)) < share * prose)

    found, outermost = dict[int, tuple[LexborNode, frozenset[str]]](), defaultdict[str, list[LexborNode]](list)
    for node in body.css("[class],[id]:not([class])"):
        attributes = node.attributes
        words = _find_around(attributes.get("class"), is_article)
        if node.tag not in _HEADED:
            words |= _find_around(attributes.get("id"), is_article)
        if not words or node.tag in _NEVER_AROUND:
            continue
        parents = (each.mem_id for each in islice(_iter_parents(node), _DEEPEST))
        outer = next((found[each][1] for each in parents if each in found), frozenset[str]())
        if not words <= outer and are_small([node], _FEW):
            found[node.mem_id] = node, words | outer
            for word in words - outer:
                outermost[word].append(node)
    least = _NEARLY if is_article else _FEW
    around = {word for word, nodes in outermost.items() if are_small(nodes, least)}
    for node, words in reversed(found.values()):
        if not around.isdisjoint(words):
            node.decompose()


class _Weights:
    """The characters of prose, data and links in each element below `body`, by `mem_id`.

    Prose are long paragraphs, also those that blocks have without an element of their own; data are cells, code and
    items. Neither has the texts of links.
    """

    def __init__(self, body: LexborNode) -> None:
        self.prose, self.data, self.links = Counter[int](), Counter[int](), Counter[int]()
        for node in body.css("a"):
            self._add(self.links, node, _measure(node))
        for node in body.css("p,pre,li,td,dd,div,section,blockquote,article"):
            if node.tag in ("p", "pre"):
                size = _measure(node) - self.links[node.mem_id]
            else:
                size = len(node.text(deep=False, strip=True))
            if node.tag in ("pre", "td", "dd") or (node.tag == "li" and size < _LONG):
                self._add(self.data, node, size)
            elif size >= _LONG:
                self._add(self.prose, node, size)

    def get_content(self, node: LexborNode) -> int:
        return self.prose[node.mem_id] + self.data[node.mem_id]

    def remove(self, node: LexborNode) -> None:
        """Remove an element, and its characters from those of the elements around it."""
        for weights in (self.prose, self.data, self.links):
            self._add(weights, node, -weights[node.mem_id])
        node.decompose()

    def _add(self, weights: Counter[int], node: LexborNode, size: int) -> None:
        if size:
            weights[node.mem_id] += size
            for each in islice(_iter_parents(node), _DEEPEST):
                weights[each.mem_id] += size


@lru_cache(4096)  # the pages of a site have the same names
def _find_around(names: str | None, is_article: bool) -> frozenset[str]:
    """Return the words of classes or an id that are of those around a text, for example in `page-nav` or `NavBar`."""
    words = [word.lower() for word in _WORD.findall(_VARIANT.sub("", names or ""))]
    around = _AROUND_ARTICLE if is_article else _AROUND_NAMES
    return around.intersection((*words, *map("-".join, pairwise(words))))


def _find_main(body: LexborNode, weights: _Weights) -> LexborNode:
    """Return the innermost part that says of itself that it has the text, if it has much of the content."""
    parts = list[tuple[int, LexborNode]]()
    for node in body.css(_TEXT_PARTS)[:_MAX_PARTS]:
        size = weights.get_content(node)
        inner = sum(weights.get_content(each) for each in node.css("article") if each.mem_id != node.mem_id)
        is_list = node.tag == "article" and 2 * inner > size  # of other articles
        if not is_list and size > (_TITLED if node.css_first("h1") else _UNTITLED) * weights.get_content(body):
            parts.append((size, node))
    if not parts:
        return body
    most = max(size for size, _ in parts)
    main, *others = (node for size, node in parts if size >= 0.8 * most)
    for node in others:  # those beside the first one are other articles
        if any(each.mem_id == main.mem_id for each in _iter_parents(node)):
            main = node
    return main


def _narrow(main: LexborNode, text: LexborNode, is_article: bool) -> LexborNode:
    """Return the element with the text, or with it and the headline before it if there is one, without what follows.

    Large elements between the two are removed, for example galleries; in an article all of them are.
    """
    inner = text
    largest = 0 if is_article else _BETWEEN * _measure(text)
    after, between = list[LexborNode](), list[LexborNode]()
    while inner.css_first("h1") is None:
        if inner.mem_id == main.mem_id or inner.parent is None:
            return text
        after += _iter_siblings(inner, "next")
        before = [*_iter_siblings(inner, "prev")]
        at = next((at for at, node in enumerate(before) if node.css_first("h1") is not None), len(before))
        between += before[:at]
        after += before[at + 1 :]
        inner = inner.parent
    for node in after:
        node.decompose()
    for node in between:
        if node.is_element_node and _measure(node) > largest:
            node.decompose()
    return inner


def _find_text(main: LexborNode, weights: _Weights, is_article: bool) -> LexborNode:
    """Return the one element that says that it has the text, or the innermost with most prose and nearly all data."""
    declared = main.css("[itemprop=articleBody]")
    if len(declared) == 1 and _measure(declared[0]) > _DECLARED * _measure(main):
        return declared[0]
    prose, data = weights.prose, weights.data
    least, least_data = (_MOST if is_article else _NEARLY) * prose[main.mem_id], _NEARLY * data[main.mem_id]
    text = main
    while least > 0:
        blocks = [each for each in text.iter() if each.tag in _BLOCKS]
        found = (each for each in blocks if prose[each.mem_id] >= least and data[each.mem_id] >= least_data)
        inner = next(found, None)
        if inner is None:
            break
        if not is_article and any(prose[each.mem_id] and _is_alike(each, inner) for each in blocks):
            break
        text = inner
    return text


def _is_alike(node: LexborNode, other: LexborNode) -> bool:
    """Return whether two elements are sections of one text, by their tags and classes."""
    kind, name = node.tag, node.attributes.get("class")
    is_section = bool(name) or kind in ("section", "article")
    return is_section and node.mem_id != other.mem_id and (kind, name) == (other.tag, other.attributes.get("class"))


def _blank_repeated_captions(text: LexborNode) -> None:
    """Remove the texts of pictures that the page repeats as text, for example in a caption."""
    shown = " ".join(text.text().split())
    seen = set[str]()
    for node in text.css("img[alt]"):
        alt = " ".join((node.attributes["alt"] or "").split())
        if alt in seen or (len(alt) > _SHORT and alt[:_CAPTION] in shown):
            node.attrs["alt"] = ""
        seen.add(alt)


def _iter_siblings(node: LexborNode, way: Literal["next", "prev"]) -> Iterator[LexborNode]:
    sibling = getattr(node, way)
    while sibling is not None:
        yield sibling
        sibling = getattr(sibling, way)


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
