"""JSON-LD: the objects that a page describes itself with, found by their type and read by a path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import cast

from pipelines.extract.jsonpath import JsonPath

_OPENING = re.compile(r"(?s)\s*+(?:<!--|(?://\s*+)?<!\[CDATA\[|/\*.*?\*/)")
_AFTER = " \t\r\n\f\xa0;"  # text that may follow the value
_NAMESPACE = re.compile(r".*[/#:]", re.DOTALL)


def parse_linked_data(text: str) -> object:
    """Parse the text of a script, which may have line breaks in strings and a comment around it; None if that fails."""
    try:
        return json.loads(_unwrap(text), strict=False)
    except (ValueError, RecursionError):
        return None


def _unwrap(text: str) -> str:
    """Remove a comment around the text, in linear time; a single pattern would take quadratic time on spaces."""
    opening = _OPENING.match(text)
    content = (text[opening.end() :] if opening else text).rstrip(_AFTER)
    if content.endswith("]]>"):
        return content[:-3].rstrip().removesuffix("//")
    return content.removesuffix("-->")


def find_linked_data(values: Iterable[object], type_: str | None, path: JsonPath | None) -> Iterator[object]:
    """Yield the values at `path` in the objects of a type, or in all top-level ones; the objects without a path.

    Lists on the path and at its end count as their items.
    """
    for found in _iter_objects(values, _get_local_name(type_) if type_ else None):
        for each in path.find(found, through_lists=True) if path else [found]:
            yield from (item for item in each if item is not None) if isinstance(each, list) else (each,)


def _iter_objects(values: Iterable[object], type_: str | None) -> Iterator[dict[str, object]]:
    """Yield the outermost objects of a type in document order, or without a type the top-level objects."""
    left = [*values][::-1]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left.extend(reversed(cast("list[object]", value)))
        elif isinstance(value, dict):
            members = cast("dict[str, object]", value)
            if type_ in _list_types(members) or (type_ is None and "@graph" not in members):
                yield members
            elif type_ is None:
                left.append(members["@graph"])
            else:
                left.extend(reversed(members.values()))


def _list_types(members: dict[str, object]) -> list[str]:
    types = members.get("@type")
    names = cast("list[object]", types) if isinstance(types, list) else [types]
    return [_get_local_name(name) for name in names if isinstance(name, str)]


def _get_local_name(type_: str) -> str:
    """Return the name of a type in lower case, without `https://schema.org/` or `schema:`."""
    return _NAMESPACE.sub("", type_).casefold()
