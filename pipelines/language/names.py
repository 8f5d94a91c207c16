"""Names as people spell them: case and underscores do not matter, and a wrong one is answered with near matches."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from itertools import islice

from pydantic import BeforeValidator

_MOST_COMPARED = 200  # names, at some 10 µs each where they are words
_MOST_WORK = 100_000  # difflib takes the square of a name's length for names that are made to be slow
_LONGEST_COMPARED = 64
_MOST_KNOWN = 40  # names in a sentence
_LONGEST_SHOWN = 60
ELLIPSIS = "…"  # ends what was cut


def normalize(name: str) -> str:
    """The form in which two spellings of a stage, method, action or join type are equal."""
    return name.replace("_", "").casefold()


def validate_choice(kind: str, values: Iterable[str]) -> BeforeValidator:
    """Pydantic validator of an argument that is one of `values`, in any spelling."""
    spellings = {normalize(value): value for value in values}

    def choose(value: object) -> str:
        if "${" in str(value):  # a parameter that has no value yet: any will do for the shape
            return next(iter(spellings.values()))
        chosen = spellings.get(normalize(str(value)))
        if chosen is None:
            raise ValueError(describe_unknown(kind, str(value), spellings.values()))
        return chosen

    return BeforeValidator(choose)


def suggest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three names that may have been meant; of very many, the first are looked at, and none that is very long."""
    if not 0 < len(name) <= _LONGEST_COMPARED:
        return []
    short = (each for each in known if len(each) <= _LONGEST_COMPARED)
    most = min(_MOST_COMPARED, _MOST_WORK // len(name) ** 2)
    return difflib.get_close_matches(name, list(islice(short, most)), n=3, cutoff=0.6)


def truncate(text: str, longest: int = 200) -> str:
    """`text`, as people are shown it; what was cut ends with an ellipsis, so that a beginning of a secret is found."""
    return text if len(text) <= longest else text[: longest - 1] + ELLIPSIS


def truncate_name(name: str) -> str:
    """The name as a sentence has it, which stays readable however long the name is."""
    return truncate(name, _LONGEST_SHOWN)


def describe_unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """A sentence that says that `name` is no `kind`, and what may have been meant."""
    spellings = {normalize(each): each for each in known}
    meant = [truncate_name(spellings[match]) for match in suggest(normalize(name), spellings)]
    if meant:
        return f"unknown {kind} '{truncate_name(name)}'; did you mean {' or '.join(meant)}?"
    first = map(truncate_name, heapq.nsmallest(_MOST_KNOWN, spellings.values(), key=str.casefold))
    rest = f" and {more:,} more" if (more := len(spellings) - _MOST_KNOWN) > 0 else ""
    return f"unknown {kind} '{truncate_name(name)}'; known are {', '.join(first) or 'none'}{rest}"
