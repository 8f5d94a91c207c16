"""The main list or table of a page, found without a model: the repeated elements with the most text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from selectolax.lexbor import LexborNode

from pipelines.extract.document import Element, HtmlElement
from pipelines.extract.tables import TableRow, read_table
from pipelines.inference.pruning import iter_visible

_MIN_ITEMS = 2
_MAX_TEXT = 300  # characters of an item that count: many short items are a list, a few long ones sections
_ROWS = "> tr, > thead > tr, > tbody > tr, > tfoot > tr"  # of a table, without those of tables in its cells
_HEADINGS = ", ".join(f"{row} > th" for row in _ROWS.split(", "))
_WORD = re.compile(r"\w{3,}")
_PAGING = re.compile(r"\b(?:next|further|following|more|all)\s+pages?\b|\bpagin|\bpager\b|\bnext\b", re.IGNORECASE)


def find_main_list(element: Element) -> list[Element]:
    """Return the items of the list with the most text, in document order; an empty list where nothing repeats."""
    if not isinstance(element, HtmlElement):
        return []
    groups: dict[tuple[int, str, str], list[LexborNode]] = {}
    for node in iter_visible(element.node):
        if node.is_element_node and node.parent is not None and node.tag not in ("br", "p", "option", "td", "th"):
            name = ((node.attributes.get("class") or "").split() or [""])[0]
            groups.setdefault((node.parent.mem_id, node.tag or "", name), []).append(node)
    best = max(groups.values(), key=_rate_items, default=[])
    return [element.at(node) for node in best] if _rate_items(best) else []


def find_main_links(element: Element) -> list[Element]:
    """Return the first link of every item of the main list."""
    links = (each if each.attr("href") else each.first("a[href]") for each in find_main_list(element))
    return [link for link in links if link is not None]


def find_next_links(prompt: str, element: Element) -> list[Element] | None:
    """Return the link to the next page, an empty list on the last page, if the prompt is about paging.

    None without markup for paging, and for a prompt about other links.
    """
    if not _PAGING.search(prompt):
        return None
    found = element.select('a[rel~="next"], link[rel~="next"]')[:1]
    is_last = not found and element.first('a[rel~="prev"], link[rel~="prev"]') is not None
    return found if found or is_last else None


def find_table(prompt: str, element: Element) -> list[TableRow]:
    """Return the rows of the table whose caption and headings have most words of a prompt, of equal ones the longest.

    A table for the layout of the page is none, and neither is one with less than two rows.
    """
    candidates = [element, *element.select("table")] if element.tag == "table" else element.select("table")
    tables = [each for each in candidates if _may_have_data(each)]
    best: tuple[tuple[int, bool, int], list[TableRow]] = (0, False, 0), []
    words = {word.casefold() for word in _WORD.findall(prompt)}
    for table in tables:
        rows = read_table(table)
        named = table.select(f"> caption, {_HEADINGS}")
        texts = (*(each.text() for each in named), *(rows[0].values if rows else ()))
        shown = f"{' '.join(texts)} {table.attr('id') or ''}"
        is_layout = not table.select(_HEADINGS) and any(map(_may_have_data, table.select("table")))
        rate = len(words & {word.casefold() for word in _WORD.findall(shown)}), not is_layout, len(rows)
        if rate > best[0]:
            best = rate, rows
    return best[1]


def _may_have_data(table: Element) -> bool:
    return table.attr("role") not in ("presentation", "none") and len(table.select(_ROWS)) >= _MIN_ITEMS


def _rate_items(items: Sequence[LexborNode]) -> int:
    if len(items) < _MIN_ITEMS:
        return 0
    return sum(min(len(node.text()), _MAX_TEXT) for node in items)
