"""JSON in scripts of a page, like `__NEXT_DATA__` and `window.__STATE__ = {…}`: its object for the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import cast

from pipelines.extract.document import Element
from pipelines.extract.text import normalize_text

_MAX_SCRIPT = 2 * 2**20  # characters
_MAX_OBJECTS = 20_000
_ASSIGNED = re.compile(r"(?:\bwindow\.|\bself\.|\bvar\s+|\bconst\s+|\blet\s+)?\b[\w$.]+\s*=\s*(?=[{\[])")
_DECODER = json.JSONDecoder()


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
