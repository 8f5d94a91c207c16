"""The functions that the embedded engine has, with the types of their arguments and results: signatures.txt.

In a signature a capital letter is any type, the same for all its places after coercion; a value at its small letter has
this type already. `number` and `whole` are numbers, `datetime` is a date, a timestamp or a timestamp with time zone;
`bigint` also takes smaller numbers and `double` all numbers, but `float64` only doubles; `…` lets the last argument be
repeated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pipelines.sql.types import BIGINT, NUMBERS, TIMES, UNKNOWN, WHOLE, Type, find_common

TOKEN = re.compile(r"->|…|interval \w+ to \w+|timestamp with time zone|\w+|[(),]")
ARGUMENTS = ("same", "second", "third")
GROUPS = {
    **{
        "number": NUMBERS,
        "whole": WHOLE,
        "datetime": TIMES,
        "double": NUMBERS,
        "bigint": WHOLE,
        "real": (*WHOLE, "real"),
    },
    **{"integer": WHOLE[:3], "timestamp": TIMES[:2], "float64": ("double",)},
}


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function."""

    text: str
    arguments: tuple[Type, ...]
    result: Type
    repeats: bool

    def match(self, types: Sequence[Type | None], bound: dict[str, Type | None]) -> bool:
        """Whether arguments of these types are taken; enters the types of its letters in `bound`."""
        missing = len(types) - len(self.arguments)
        if missing < 0 or (missing > 0 and not self.repeats):
            return False
        patterns = [*self.arguments, *[self.arguments[-1]] * missing] if missing else self.arguments
        return all(_match(pattern, type, bound) for pattern, type in zip(patterns, types, strict=True))


@cache
def load_signatures() -> dict[str, tuple[Signature, ...]]:
    """Return the signatures by the function's name."""
    found: dict[str, tuple[Signature, ...]] = {}
    for line in Path(__file__).with_name("signatures.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, signature = _parse_line(line)
            found[name] = (*found.get(name, ()), signature)
    return found


@cache
def load_aggregates() -> frozenset[str]:
    """Return the names of the functions that make one value of a group of rows."""
    text = Path(__file__).with_name("signatures.txt").read_text("utf-8")
    lines = text.partition("# Aggregates\n")[2].partition("#")[0].splitlines()
    return frozenset(line.partition("(")[0] for line in lines)


def _parse_line(line: str) -> tuple[str, Signature]:
    tokens: list[str] = TOKEN.findall(line)
    repeats = "…" in tokens
    (call, rest) = _parse_pattern([each for each in tokens if each != "…"])
    result, _ = _parse_pattern(rest[1:])
    arguments = tuple(each for each in call.items if each is not None)
    return call.name, Signature(line, arguments, result, repeats)


def _parse_pattern(tokens: list[str]) -> tuple[Type, list[str]]:
    name, rest = tokens[0], tokens[1:]
    if not rest or rest[0] != "(":
        return Type(name), rest
    items: list[Type | None] = []
    rest = rest[1:]
    while rest[0] != ")":
        item, rest = _parse_pattern(rest[1:] if rest[0] == "," else rest)
        items.append(item)
    return Type(name, tuple(items)), rest[1:]


def _match(pattern: Type | None, type: Type | None, bound: dict[str, Type | None]) -> bool:
    if pattern is None or pattern.name in ("function", "any"):
        return True
    if len(pattern.name) == 1:
        letter = pattern.name.upper()
        fits, bound[letter] = common = find_common([bound.get(letter, UNKNOWN), type])
        return fits and (letter == pattern.name or type in (None, UNKNOWN) or common[1] in (None, type))
    if type is None or type == UNKNOWN:
        return True
    if pattern.name in GROUPS:
        return type.name in GROUPS[pattern.name]
    if pattern.name != type.name:
        return False
    return all(_match(item, own, bound) for item, own in zip(pattern.items, type.items, strict=False))


def substitute(pattern: Type, bound: dict[str, Type | None], given: Sequence[Type | None]) -> Type | None:
    """Return the type of a result's pattern; `same`, `second` and `third` are those of arguments."""
    if pattern.name in ARGUMENTS:
        return given[ARGUMENTS.index(pattern.name)]
    if pattern.name == "sum":
        return BIGINT if given[0] is not None and given[0].name in WHOLE else given[0]
    if len(pattern.name) == 1:
        return bound.get(pattern.name)
    return Type(pattern.name, tuple(substitute(item, bound, given) if item else None for item in pattern.items))
