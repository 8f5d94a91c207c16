"""JSONPath (RFC 9535) without filters: `$.data.items[0].name`, `$['a key'][-1]`, `$.items[*]`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from selectolax.lexbor import LexborNode

from pipelines.extract.matching import SearchScope

_STEP = re.compile(
    r"""[ \t\n\r]*+(?:
        \.(?P<name>@?[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff-]*+|\*)  # .name and .*, .@type of JSON-LD
      | \[[ \t\n\r]*+(?:
            (?P<index>0|-?[1-9][0-9]*+|\*)
          | '(?P<single>(?:[^'\\]|\\.)*+)'
          | (?P<double>"(?:[^"\\]|\\.)*+")
        )[ \t\n\r]*+\])
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_BLANKS = " \t\n\r"
_MAX_INDEX = 2**53 - 1
_QUOTE = re.compile(r"""\\.|\"""", re.DOTALL)
# Escapes in a JSON text, each from its own backslash on; the group is half of a surrogate pair without the other.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.ASCII)


class JsonPathError(ValueError):
    """The path does not parse; the message has the position."""


class _Every:
    """The step to all members or items."""


EVERY = _Every()


@dataclass(frozen=True, slots=True)
class JsonPath:
    """Steps from a value down: a member's name, an item's index, or EVERY."""

    steps: tuple[str | int | _Every, ...]

    @property
    def is_singular(self) -> bool:
        """Whether it has at most one value."""
        return EVERY not in self.steps

    def find(
        self, value: object, open_values: Callable[[Iterable[object]], list[object]] | None = None
    ) -> list[object]:
        """Return the values of the path in order, nulls too; names are taken in what `open_values` makes of values."""
        found: list[Any] = [value]
        for step in self.steps:
            if isinstance(step, str):
                if open_values:
                    found = open_values(found)
                found = [each[step] for each in found if isinstance(each, dict) and step in each]
            elif isinstance(step, int):
                found = [each[step] for each in found if isinstance(each, list) and -len(each) <= step < len(each)]
            else:
                found = [child for each in found for child in _list_children(each)]
        return found

    def select(self, scope: SearchScope) -> list[LexborNode]:
        """Return nothing: an HTML page has no values."""
        return []

    def first(self, scope: SearchScope) -> LexborNode | None:
        return None


def is_json_path(text: str) -> bool:
    return text.startswith("$") and text[1:].lstrip(_BLANKS).startswith((".", "["))


def parse_json_path(text: str) -> JsonPath:
    """The path that begins with `$`; raises JsonPathError."""
    steps: list[str | int | _Every] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        try:
            if match is None:
                raise ValueError("no step")
            steps.append(_read_step(match))
        except ValueError:
            raise JsonPathError(f"'{text[at:]}' at character {at + 1} is no .name, [index], ['name'] or *") from None
        at = match.end()
    return JsonPath(tuple(steps))


def read_json(text: str, in_lines: bool) -> object:
    """Parse a JSON text, or one of values `in_lines` as a list; raise ValueError with a clause.

    Objects in lines are a list too where the whole is no JSON. An unpaired surrogate, which is no character, becomes
    U+FFFD.
    """
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPE.sub(_replace_unpaired, text)
    try:
        return _read_lines(text) if in_lines else json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None
    except json.JSONDecodeError as error:
        if not in_lines and text.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):
                return _read_lines(text)
        raise ValueError(f"its JSON cannot be read: {error}") from None


def _read_lines(text: str) -> list[object]:
    values: list[object] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                values.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise json.JSONDecodeError(f"line {number}, {error.msg}", error.doc, error.pos) from None
    return values


def format_json(value: object) -> str:
    """Format a value: a text unchanged, other values as JSON, an empty text if it is nested too deep."""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""


def _replace_unpaired(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape[1] else escape[0]


def _read_step(match: re.Match[str]) -> str | int | _Every:
    """Return the step; raise ValueError for an index or a name in quotes that RFC 9535 does not have."""
    if "*" in (match["name"], match["index"]):
        return EVERY
    if match["name"]:
        return match["name"]
    if match["index"]:
        index = int(match["index"][: len(str(_MAX_INDEX)) + 2])
        if abs(index) > _MAX_INDEX:
            raise ValueError("the index is too large")
        return index
    quoted = match["double"] or f'"{_QUOTE.sub(_turn_quote, match["single"])}"'
    name = json.loads(quoted)
    name.encode()  # half of a surrogate pair is no character
    return name


def _turn_quote(found: re.Match[str]) -> str:
    """Write an escape or quote of a name in single quotes as JSON has it."""
    if found[0] == '\\"':
        raise ValueError("a double quote needs no escape in single quotes")
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])


def _list_children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()
