"""JSON-LD: the objects that a page describes itself with, found by their type and read by a path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import cast

from pipelines.extract.jsonpath import JsonPath
from pipelines.extract.patterns import SelectorFailed
from pipelines.fetch.urls import absolute_url

_OPENING = re.compile(r"(?s)\s*+(?:<!--|(?://\s*+)?<!\[CDATA\[|/\*.*?\*/)")
_AFTER = " \t\r\n\f\xa0;"  # text that may follow the value
_CONTAINERS = ("@value", "@list", "@set")
_MAX_OPENED = 1_000_000  # values on the way of one path
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
    if (ending := content.removesuffix("*/").rstrip()).endswith("]]>"):
        return ending[:-3].rstrip().removesuffix("//").removesuffix("/*")
    return content.removesuffix("-->")


class LinkedData:
    """The objects of a page's JSON-LD, in which `{"@id": …}` stands for the object with that identifier.

    Identifiers are relative to `base`, the address of the page.
    """

    def __init__(self, values: Iterable[object], base: str) -> None:
        self._values = [*values]
        self._base = base
        self._ids: dict[str, str] = {}
        self._opened = 0

    def find(self, type_: str | None, path: JsonPath | None) -> Iterator[object]:
        """Yield the values at `path` in the objects of a type, or in all top-level ones; the objects without a path.

        Lists on the path and at its end count as their items. Raises SelectorFailed for too many ways in the graph.
        """
        self._opened = 0
        for found in self._iter_objects(_get_local_name(type_) if type_ else None):
            if path is None:
                yield found
            else:
                yield from (each for each in self._open(path.find(found, self._open)) if each is not None)

    def resolve(self, value: object) -> object:
        """Return an object with the members that others with its identifier have, and the value of a value object."""
        if not isinstance(value, dict):
            return value
        members = cast("dict[str, object]", value)
        for name in _CONTAINERS:
            if name in members:
                return members[name]
        return {**self._nodes.get(id_, {}), **members} if (id_ := self.get_id(members)) else members

    def get_id(self, value: object) -> str | None:
        """Return the absolute identifier of an object."""
        id_ = cast("dict[str, object]", value).get("@id") if isinstance(value, dict) else None
        if not isinstance(id_, str):
            return None
        if (absolute := self._ids.get(id_)) is None:
            absolute = self._ids[id_] = absolute_url(id_, self._base) or id_
        return absolute

    @cached_property
    def _nodes(self) -> dict[str, dict[str, object]]:
        """The members of all objects by identifier; of two members with a name the first counts."""
        nodes: dict[str, dict[str, object]] = {}
        left = self._values[::-1]
        while left:
            value = left.pop()
            if isinstance(value, list):
                left.extend(reversed(cast("list[object]", value)))
            elif isinstance(value, dict):
                members = cast("dict[str, object]", value)
                if id_ := self.get_id(members):
                    nodes[id_] = {**members, **nodes.get(id_, {})}
                left.extend(reversed(members.values()))
        return nodes

    def _open(self, values: Iterable[object]) -> list[object]:
        """Return the items of lists and the objects of identifiers, each once: a graph may have many ways to it."""
        found: list[object] = []
        seen: set[str] = set()
        for value in values:
            opened = self.resolve(value)
            self._opened += len(cast("list[object]", opened)) if isinstance(opened, list) else 1
            if self._opened > _MAX_OPENED:
                raise SelectorFailed(f"a path in the JSON-LD of the page has more than {_MAX_OPENED:,} values")
            for each in cast("list[object]", opened) if isinstance(opened, list) else (opened,):
                if (id_ := self.get_id(each)) is None or id_ not in seen:
                    found.append(self.resolve(each))
                    seen.update((id_,) if id_ else ())
        return found

    def _iter_objects(self, type_: str | None) -> Iterator[dict[str, object]]:
        """Yield the outermost objects of a type in document order, or without a type the top-level objects."""
        seen: set[str] = set()
        left = self._values[::-1]
        while left:
            value = left.pop()
            if isinstance(value, list):
                left.extend(reversed(cast("list[object]", value)))
            elif isinstance(value, dict):
                members = cast("dict[str, object]", value)
                if type_ in _list_types(members) or (type_ is None and "@graph" not in members):
                    if (id_ := self.get_id(members)) is None or id_ not in seen:
                        yield cast("dict[str, object]", self.resolve(members))
                        seen.update((id_,) if id_ else ())
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
