"""Metadata of a page: JSON-LD, microdata, OpenGraph, tables of labels and JSON in scripts, as values by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from selectolax.lexbor import LexborNode

from pipelines.contract.questions import Found
from pipelines.extract.document import Element, HtmlElement
from pipelines.extract.images import find_source
from pipelines.extract.jsonpath import format_json
from pipelines.extract.linked_data import LinkedData
from pipelines.extract.text import normalize_text
from pipelines.inference.reading import get_path

_MAX_VALUE = 4000  # characters
_MAX_LABEL = 40
_MAX_DEPTH = 4  # of objects in JSON-LD
# objects that describe the site or the way to a page, not the subject of the page
_SITE_TYPES = frozenset(
    (
        *("website", "webpage", "organization", "corporation", "onlinestore", "breadcrumblist", "itemlist"),
        *("collectionpage", "searchaction", "imageobject", "person", "sitenavigationelement", "wpheader", "wpfooter"),
    )
)
_SYNONYMS = (
    ("name", "title", "headline", "producttitle", "productname", "eventname", "heading"),
    ("price", "amount"),
    ("pricecurrency", "currency"),
    ("image", "imageurl", "picture", "photo"),
    ("description", "summary"),
    ("brand", "manufacturer"),
    ("gtin13", "gtin", "gtin8", "gtin12", "gtin14", "ean", "barcode"),
    ("ratingvalue", "rating", "stars"),
    ("reviewcount", "ratingcount", "reviews", "numberofreviews"),
    ("datepublished", "published", "publicationdate", "date"),
    ("startdate", "eventdate", "start"),
    ("availability", "stock"),
    ("url", "link", "address"),
)
_GROUPS = {name: group for group in _SYNONYMS for name in group}
_NOT_LETTERS = re.compile(r"[\W_]+")
_MAX_SCRIPT = 2 * 2**20  # characters
_MAX_OBJECTS = 20_000
_ASSIGNED = re.compile(r"(?:\bwindow\.|\bself\.|\bvar\s+|\bconst\s+|\blet\s+)?\b[\w$.]+\s*=\s*(?=[{\[])")
_DECODER = json.JSONDecoder()


def read_metadata(element: Element) -> Mapping[str, Found]:
    """Return the values that a page or segment states by their normalized names; of two statements the first counts.

    A page about several things states nothing: which of them is meant is a question of the prompt.
    """
    found: dict[str, Found] = {}
    if element.is_page:
        sources = (_read_linked_data, _read_microdata, _read_open_graph, _read_labels, _read_state)
    else:
        sources = (_read_microdata, _read_labels)
    for read in sources:
        for name, value in read(element):
            if value.value and len(value.value) <= _MAX_VALUE:
                found.setdefault(name, value)
    return found


def find_stated(metadata: Mapping[str, Found], names: Sequence[str]) -> Found | None:
    """Return the value of the first of these names, or of a synonym of it."""
    for name in map(_normalize, names):
        for each in (name, *_GROUPS.get(name, ())):
            if each in metadata:
                return metadata[each]
    return None


def _normalize(name: str) -> str:
    return _NOT_LETTERS.sub("", name).casefold()


def _read_linked_data(element: Element) -> Iterator[tuple[str, Found]]:
    linked_data = element.document.linked_data
    about = {linked_data.get_id(each) or id(each): each for each in _list_entities(linked_data)}
    for key, members in [*about.items()]:  # a part of another one is not what the page is about
        for part in map(linked_data.get_id, _iter_parts(members) if key in about else ()):
            if part and part != key:
                about.pop(part, None)
    if len(about) == 1:
        (members,) = about.values()
        yield from _read_members("$", members, element.document.page.url, "json-ld", linked_data)


def _list_entities(linked_data: LinkedData) -> list[dict[str, object]]:
    """Return the objects that are not about the site or the way to the page, by what they are about."""
    objects = (each for each in linked_data.find(None, None) if isinstance(each, dict))
    entities = (_get_main_entity(cast("dict[str, object]", each), linked_data) for each in objects)
    return [each for each in entities if not _list_types(each) & _SITE_TYPES]


def _iter_parts(members: dict[str, object]) -> Iterator[object]:
    for member in members.values():
        yield from cast("list[object]", member) if isinstance(member, list) else (member,)


def _read_state(element: Element) -> Iterator[tuple[str, Found]]:
    if (found := find_state_object(element)) is not None:
        yield from _read_members(*found, element.document.page.url, "state")


def _read_members(
    path: str, about: dict[str, object], url: str, method: str, linked_data: LinkedData | None = None
) -> Iterator[tuple[str, Found]]:
    """Yield the members of an object and of the objects in it, the outer ones first."""
    level = [(path, about)]
    seen = {linked_data.get_id(about)} if linked_data else set[str | None]()
    for _ in range(_MAX_DEPTH):
        below: list[tuple[str, dict[str, object]]] = []
        for path, members in level:
            for name, member in members.items():
                value = _unwrap(member)
                if linked_data and isinstance(value, dict) and (id_ := linked_data.get_id(value)) not in seen:
                    seen.update((id_,) if id_ else ())
                    value = _unwrap(linked_data.resolve(value))
                at = f"{path}.{name}"
                if isinstance(value, dict):
                    inner = cast("dict[str, object]", value)
                    below.append((at, inner))
                    value = inner.get("name") or (inner.get("url") if name == "image" else None)
                if isinstance(value, str | int | float) and not isinstance(value, bool) and not name.startswith("@"):
                    text = " ".join(format_json(value).split())
                    yield _normalize(name), Found(text, text[:200], at, url, method)
        # a name inside of another object is that object's
        level = [(path, {k: v for k, v in members.items() if k not in ("name", "url")}) for path, members in below]


def _get_main_entity(members: dict[str, object], linked_data: LinkedData) -> dict[str, object]:
    entity = linked_data.resolve(members.get("mainEntity"))
    return cast("dict[str, object]", entity) if isinstance(entity, dict) else members


def _unwrap(value: object) -> object:
    """Return the item of a list with one item; the first image of several, which are of one thing."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        return items[0] if len(items) == 1 or (items and all(isinstance(each, str) for each in items)) else None
    return value


def _list_types(members: dict[str, object]) -> set[str]:
    types = members.get("@type")
    names = cast("list[object]", types) if isinstance(types, list) else [types]
    return {str(name).rpartition("/")[2].casefold() for name in names}


def _read_microdata(element: Element) -> Iterator[tuple[str, Found]]:
    scopes = [each for each in element.select("[itemscope]") if each.attr("itemprop") is None]
    types = [(each.attr("itemtype") or "").rpartition("/")[2].casefold() for each in scopes]
    about = [scope for scope, type_ in zip(scopes, types, strict=True) if type_ not in _SITE_TYPES]
    if len(about) > 1:
        return
    values: dict[str, dict[int, list[Found]]] = {}
    for each in (about[0] if about else element).select("[itemprop]"):
        if not isinstance(each, HtmlElement) or each.attr("itemscope") is not None:
            continue
        value = _read_item(each)
        found = Found(value, each.text()[:200], get_path(each.node), element.document.page.url, "microdata")
        for name in (each.attr("itemprop") or "").split():
            values.setdefault(_normalize(name), {}).setdefault(_count_scopes(each.node), []).append(found)
    for name, by_depth in values.items():
        outermost = by_depth[min(by_depth)]
        if len({each.value for each in outermost}) == 1:
            yield name, outermost[0]


def _read_item(element: HtmlElement) -> str:
    if (content := element.attr("content")) is not None:
        return content.strip()
    if element.tag in ("img", "source"):
        return find_source(element) or ""
    if element.tag in ("a", "link") and element.attr("href"):
        return element.absolute("href") or ""
    return (element.attr("datetime") if element.node.tag == "time" else None) or element.text()


def _count_scopes(node: LexborNode) -> int:
    count, parent = 0, node.parent
    while parent is not None:
        count += "itemscope" in (parent.attributes if parent.is_element_node else {})
        parent = parent.parent
    return count


def _read_open_graph(element: Element) -> Iterator[tuple[str, Found]]:
    for each in element.select('meta[property^="og:"], meta[property^="product:"], meta[property^="article:"]'):
        name, value = (each.attr("property") or "").partition(":")[2], (each.attr("content") or "").strip()
        name = {"price:amount": "price", "price:currency": "pricecurrency", "published_time": "datepublished"}.get(
            name, name
        )
        if name not in ("site_name", "locale", "type") and value:
            yield (
                _normalize(name),
                Found(value, value[:200], get_path(each.node), element.document.page.url, "opengraph"),
            )


def _read_labels(element: Element) -> Iterator[tuple[str, Found]]:
    """Yield the rows of tables with one label and one value, and definitions, unless a label occurs twice."""
    found: dict[str, Found | None] = {}
    for label, value in _iter_labels(element):
        text = label.text().rstrip(": ")
        if 0 < len(text) <= _MAX_LABEL:
            shown = Found(value.text(), value.text()[:200], get_path(value.node), element.document.page.url, "table")
            found[_normalize(text)] = None if _normalize(text) in found else shown
    yield from ((name, each) for name, each in found.items() if each is not None)


def _iter_labels(element: Element) -> Iterator[tuple[Element, Element]]:
    for row in element.select("tr:has(> th)"):
        labels, values = row.select("> th"), row.select("> td")
        if len(labels) == 1 and len(values) == 1:
            yield labels[0], values[0]
    for label in element.select("dt + dd"):
        before = label.node.prev if label.node is not None else None
        while before is not None and not before.is_element_node:
            before = before.prev
        if before is not None and before.tag == "dt" and isinstance(label, HtmlElement):
            yield label.at(before), label


def find_state_object(element: Element) -> tuple[str, dict[str, object]] | None:
    """Return the object whose members include the page's main heading, with its path; None unless there is one.

    State holds settings and other products too: the heading says which object the page is about.
    """
    heading = element.first("h1")
    wanted = normalize_text(heading.text()).strip().casefold() if heading is not None else ""
    if not wanted:
        return None
    found: dict[str, tuple[str, dict[str, object]]] = {}
    for root in _iter_scripts(element):
        for path, members in _iter_objects(root):
            texts = (value for value in members.values() if isinstance(value, str))
            if any(normalize_text(text).strip().casefold() == wanted for text in texts):
                found.setdefault(json.dumps(members, sort_keys=True), (path, members))
    return next(iter(found.values())) if len(found) == 1 else None


def _iter_scripts(element: Element) -> Iterator[object]:
    for script in element.select("script:not([src])"):
        kind = (script.attr("type") or "").casefold()
        text = script.node.text() if script.node is not None else ""
        if kind == "application/ld+json" or not 2 < len(text) <= _MAX_SCRIPT:
            continue
        if kind.endswith("json"):
            starts = [len(text) - len(text.lstrip())]
        else:
            starts = [match.end() for match in _ASSIGNED.finditer(text)][:3] if kind in ("", "text/javascript") else []
        for start in starts:
            try:
                yield _DECODER.raw_decode(text, start)[0]
            except (ValueError, RecursionError):
                continue


def _iter_objects(root: object) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield all objects of a JSON value with their paths, up to a bound."""
    level: list[tuple[str, object]] = [("$", root)]
    left = _MAX_OBJECTS
    while level and left > 0:
        path, value = level.pop()
        left -= 1
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            yield path, members
            level += [(f"{path}.{name}", each) for name, each in members.items() if isinstance(each, dict | list)]
        elif isinstance(value, list):
            items = cast("list[object]", value)
            level += [(f"{path}[{at}]", each) for at, each in enumerate(items) if isinstance(each, dict | list)]
