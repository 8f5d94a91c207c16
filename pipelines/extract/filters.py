"""What lexbor can't decide of a selector: text, patterns, and attributes as jsoup compares them."""

from __future__ import annotations

from collections.abc import Callable

from selectolax.lexbor import LexborNode

from pipelines.extract.matching import Filter, Predicate, Query, Scope
from pipelines.extract.patterns import Pattern
from pipelines.extract.text import (
    data_of,
    may_contain,
    normalised,
    own_text_of,
    text_of,
    whole_own_text_of,
    whole_text_of,
)

_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda actual, value: actual.strip() == value,
    "!=": lambda actual, value: actual != value,
    "^=": str.startswith,
    "$=": str.endswith,
    "*=": str.__contains__,
}


def _test(predicate: Predicate) -> Filter:
    """A filter that does not depend on where is searched."""
    return lambda scope: predicate


def tag_starts(prefix: str) -> Filter:
    return _test(lambda node: (node.tag or "").startswith(prefix))


def tag_in_any_namespace(name: str) -> Filter:
    return _test(lambda node: node.tag == name or (node.tag or "").endswith(":" + name))


def attribute_starts(prefix: str) -> Filter:
    return _test(lambda node: any(key.lower().startswith(prefix) for key in node.attributes))


def attribute(key: str, test: Callable[[str], object]) -> Filter:
    """Elements that have the attribute `key` with a value that passes `test`; `abs:NAME` is its absolute address."""

    def bind(scope: Scope) -> Predicate:
        return lambda node: (value := _value(node, key, scope)) is not None and test(value)

    return bind


def attribute_matches(key: str, pattern: Pattern) -> Filter:
    return lambda scope: attribute(key, pattern.on(scope.searched))(scope)


def comparison(key: str, operator: str, value: str) -> Filter:
    """`value` is in lower case; an attribute that is not there differs from every value but the empty one."""
    compare = _COMPARISONS[operator]
    if operator != "!=":
        return attribute(key, lambda actual: compare(actual.lower(), value))
    return lambda scope: lambda node: compare((_value(node, key, scope) or "").lower(), value)


def _value(node: LexborNode, key: str, scope: Scope) -> str | None:
    attributes, name = node.attributes, key.removeprefix("abs:")
    if name not in attributes:
        return None
    return (attributes[name] or "") if name == key else scope.at(node).absolute(name)


def contains(text: str) -> Filter:
    wanted = normalised(text).lower()
    word = max(wanted.split(" "), key=len)
    return _test(lambda node: may_contain(node, word) and wanted in text_of(node).lower())


def contains_own(text: str) -> Filter:
    wanted = normalised(text).lower()
    return _test(lambda node: wanted in own_text_of(node).lower())


def contains_whole_text(text: str) -> Filter:
    return _test(lambda node: text in whole_text_of(node))


def contains_whole_own_text(text: str) -> Filter:
    return _test(lambda node: text in whole_own_text_of(node))


def contains_data(text: str) -> Filter:
    wanted = text.lower()
    return _test(lambda node: wanted in data_of(node).lower())


def _search(pattern: Pattern, text_of: Callable[[LexborNode], str]) -> Filter:
    """Elements in whose text, of the kind that `text_of` reads, the pattern is found."""

    def bind(scope: Scope) -> Predicate:
        found = pattern.on(scope.searched)
        return lambda node: found(text_of(node))

    return bind


def matches(pattern: Pattern) -> Filter:
    return _search(pattern, text_of)


def matches_own(pattern: Pattern) -> Filter:
    return _search(pattern, own_text_of)


def matches_whole_text(pattern: Pattern) -> Filter:
    return _search(pattern, whole_text_of)


def matches_whole_own_text(pattern: Pattern) -> Filter:
    return _search(pattern, whole_own_text_of)


def empty(scope: Scope) -> Predicate:
    return _is_empty


def blank(scope: Scope) -> Predicate:
    return lambda node: not whole_own_text_of(node).strip(" \t\n\f\r")


def _is_empty(node: LexborNode) -> bool:
    """Without elements and without text but white space."""
    child = node.first_child
    while child is not None:
        if child.is_element_node or (child.is_text_node and not child.is_empty_text_node):
            return False
        child = child.next
    return True


def has(query: Query) -> Filter:
    """Elements inside which, or for a leading + or ~ beside which, `query` finds something."""

    def bind(scope: Scope) -> Predicate:
        owners = query.owners(scope)
        if owners is not None:
            return lambda node: node.mem_id in owners
        return lambda node: query.found_around(scope.at(node))

    return bind


def among(query: Query) -> Filter:
    def bind(scope: Scope) -> Predicate:
        found = {node.mem_id for node in query.find(scope)}
        return lambda node: node.mem_id in found

    return bind


def not_among(query: Query) -> Filter:
    def bind(scope: Scope) -> Predicate:
        found = {node.mem_id for node in query.find(scope)}
        return lambda node: node.mem_id not in found

    return bind
