"""Names as users spell them: case and underscores are ignored, and an unknown name is answered with similar ones."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from itertools import islice
from typing import Literal

from pydantic import BeforeValidator

from pipelines.errors import ArgumentError

_MOST_COMPARED = 200  # names, at some 10 µs per word
_MOST_WORK = 100_000  # difflib is quadratic in the length of names that are chosen to be slow
_LONGEST_COMPARED = 64
_MOST_KNOWN = 40  # names in a sentence
_LONGEST_NAME = 60  # characters of a name in a sentence
ELLIPSIS = "…"  # marks truncated text


def normalize(name: str) -> str:
    """Return the form in which two spellings of a stage, method, action or join type are equal."""
    return name.replace("_", "").casefold()


def validate_choice(kind: str, values: Iterable[str]) -> BeforeValidator:
    """Return a pydantic validator that accepts one of `values` in any spelling."""
    spellings = {normalize(value): value for value in values}

    def choose(value: object) -> str:
        if "${" in str(value):  # an open parameter: any value satisfies the check of the shape
            return next(iter(spellings.values()))
        chosen = spellings.get(normalize(str(value)))
        if chosen is None:
            raise ArgumentError(describe_unknown(kind, str(value), spellings.values()), "unknown-value")
        return chosen

    if isinstance(values, type):  # an enumeration, which the schema has anyway
        return BeforeValidator(choose)
    names = Literal[*spellings.values()]  # pyright: ignore[reportInvalidTypeForm]
    return BeforeValidator(choose, json_schema_input_type=names)


def suggest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names similar to `name`; very long names, and names after the first 200, are ignored."""
    if not 0 < len(name) <= _LONGEST_COMPARED:
        return []
    short = (each for each in known if len(each) <= _LONGEST_COMPARED)
    most = min(_MOST_COMPARED, _MOST_WORK // len(name) ** 2)
    return difflib.get_close_matches(name, list(islice(short, most)), n=3, cutoff=0.6)


def truncate(text: str, longest: int = 200) -> str:
    """Cut a text for display; the ellipsis at its end lets masking recognize the beginning of a secret."""
    return text if len(text) <= longest else text[: longest - 1] + ELLIPSIS


def truncate_name(name: str) -> str:
    """Cut a name so that the sentence around it stays readable."""
    return truncate(name, _LONGEST_NAME)


def describe_unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return a sentence that calls `name` unknown and suggests similar names, or lists the known ones."""
    spellings = {normalize(each): each for each in known}
    similar = [truncate_name(spellings[match]) for match in suggest(normalize(name), spellings)]
    if similar:
        return f"unknown {kind} '{truncate_name(name)}'; did you mean {' or '.join(similar)}?"
    first = map(truncate_name, heapq.nsmallest(_MOST_KNOWN, spellings.values(), key=str.casefold))
    rest = f" and {more:,} more" if (more := len(spellings) - _MOST_KNOWN) > 0 else ""
    return f"unknown {kind} '{truncate_name(name)}'; known are {', '.join(first) or 'none'}{rest}"
