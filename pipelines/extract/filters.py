"""Filters for the parts of selectors that lexbor lacks: text, patterns, and attributes as jsoup compares them."""

from __future__ import annotations

from collections.abc import Callable

from selectolax.lexbor import LexborNode

from pipelines.extract.matching import Filter, Predicate, Query, SearchScope
from pipelines.extract.patterns import Pattern
from pipelines.extract.text import (
    get_data,
    get_own_text,
    get_visible_text,
    get_whole_own_text,
    get_whole_text,
    may_contain,
    normalize_text,
)

_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "=": str.__eq__,
    "!=": lambda actual, value: actual != value,
    "^=": str.startswith,
    "$=": str.endswith,
    "*=": str.__contains__,
    "|=": lambda actual, value: actual == value or actual.startswith(f"{value}-"),
}


def _make_filter(predicate: Predicate) -> Filter:
    """Return a filter that does not depend on the scope."""
    return lambda scope: predicate


def match_tag_prefix(prefix: str) -> Filter:
    return _make_filter(lambda node: (node.tag or "").startswith(prefix))


def match_tag_in_any_namespace(name: str) -> Filter:
    return _make_filter(lambda node: node.tag == name or (node.tag or "").endswith(":" + name))


def match_attribute_prefix(prefix: str) -> Filter:
    return _make_filter(lambda node: any(key.lower().startswith(prefix) for key in node.attributes))


def match_attribute(key: str, test: Callable[[str], object]) -> Filter:
    """Match elements whose attribute `key` passes `test`; the value of `abs:NAME` is an absolute URL."""

    def bind(scope: SearchScope) -> Predicate:
        return lambda node: (value := _get_attribute(node, key, scope)) is not None and test(value)

    return bind


def match_attribute_pattern(key: str, pattern: Pattern) -> Filter:
    return lambda scope: match_attribute(key, pattern.limit_to_page(scope.searched))(scope)


def match_attribute_value(key: str, operator: str, value: str, is_exact: bool) -> Filter:
    """Compare an attribute, in any case unless `is_exact`; a missing one differs from all values but the empty text."""
    compare, fold = _COMPARISONS[operator], str if is_exact else str.lower
    wanted = fold(value)
    if operator != "!=":
        return match_attribute(key, lambda actual: compare(fold(actual), wanted))
    return lambda scope: lambda node: compare(fold(_get_attribute(node, key, scope) or ""), wanted)


def _get_attribute(node: LexborNode, key: str, scope: SearchScope) -> str | None:
    attributes, name = node.attributes, key.removeprefix("abs:")
    if name not in attributes:
        return None
    return (attributes[name] or "") if name == key else scope.at(node).absolute(name)


def match_text(text: str) -> Filter:
    wanted = normalize_text(text).lower()
    word = max(wanted.split(" "), key=len)
    return _make_filter(lambda node: may_contain(node, word) and wanted in get_visible_text(node).lower())


def match_own_text(text: str) -> Filter:
    wanted = normalize_text(text).lower()
    return _make_filter(lambda node: wanted in get_own_text(node).lower())


def match_whole_text(text: str) -> Filter:
    return _make_filter(lambda node: text in get_whole_text(node))


def match_whole_own_text(text: str) -> Filter:
    return _make_filter(lambda node: text in get_whole_own_text(node))


def match_data(text: str) -> Filter:
    wanted = text.lower()
    return _make_filter(lambda node: wanted in get_data(node).lower())


def _find_pattern(pattern: Pattern, text_of: Callable[[LexborNode], str]) -> Filter:
    """Match elements by a pattern in the text that `text_of` returns."""

    def bind(scope: SearchScope) -> Predicate:
        found = pattern.limit_to_page(scope.searched)
        return lambda node: found(text_of(node))

    return bind


def find_in_text(pattern: Pattern) -> Filter:
    return _find_pattern(pattern, get_visible_text)


def find_in_own_text(pattern: Pattern) -> Filter:
    return _find_pattern(pattern, get_own_text)


def find_in_whole_text(pattern: Pattern) -> Filter:
    return _find_pattern(pattern, get_whole_text)


def find_in_whole_own_text(pattern: Pattern) -> Filter:
    return _find_pattern(pattern, get_whole_own_text)


def is_empty(scope: SearchScope) -> Predicate:
    return _has_no_content


def is_blank(scope: SearchScope) -> Predicate:
    return lambda node: not get_whole_own_text(node).strip(" \t\n\f\r")


def _has_no_content(node: LexborNode) -> bool:
    """Return whether a node has neither elements nor text other than white space."""
    child = node.first_child
    while child is not None:
        if child.is_element_node or (child.is_text_node and not child.is_empty_text_node):
            return False
        child = child.next
    return True


def require_inside(query: Query) -> Filter:
    """Match elements with a match of `query` inside or, after a leading + or ~, among their siblings."""

    def bind(scope: SearchScope) -> Predicate:
        owners = query.find_owners(scope)
        if owners is not None:
            return lambda node: node.mem_id in owners
        return lambda node: query.matches_around(scope.at(node))

    return bind


def keep_matches(query: Query) -> Filter:
    def bind(scope: SearchScope) -> Predicate:
        found = {node.mem_id for node in query.find(scope)}
        return lambda node: node.mem_id in found

    return bind


def reject_matches(query: Query) -> Filter:
    def bind(scope: SearchScope) -> Predicate:
        found = {node.mem_id for node in query.find(scope)}
        return lambda node: node.mem_id not in found

    return bind
