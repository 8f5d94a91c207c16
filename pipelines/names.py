"""Names as people spell them: case and underscores do not matter, and a wrong one is answered with near matches."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from pydantic import BeforeValidator

MOST_COMPARED = 200  # names, at some 10 µs each


def fold(name: str) -> str:
    """The form in which two spellings of a stage, method, action or join type are equal."""
    return name.replace("_", "").casefold()


def choice(kind: str, values: Iterable[str]) -> BeforeValidator:
    """Pydantic validator of an argument that is one of `values`, in any spelling."""
    spellings = {fold(value): value for value in values}

    def choose(value: object) -> str:
        if "${" in str(value):  # a parameter that has no value yet: any will do for the shape
            return next(iter(spellings.values()))
        chosen = spellings.get(fold(str(value)))
        if chosen is None:
            raise ValueError(unknown(kind, str(value), spellings.values()))
        return chosen

    return BeforeValidator(choose)


def near(name: str, known: Iterable[str]) -> list[str]:
    """Up to three names that may have been meant; of very many, the first are looked at."""
    return difflib.get_close_matches(name, list(islice(known, MOST_COMPARED)), n=3, cutoff=0.6)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """A sentence that says that `name` is no `kind`, and what may have been meant."""
    spellings = {fold(each): each for each in known}
    meant = [spellings[match] for match in near(fold(name), spellings)]
    if meant:
        return f"unknown {kind} '{name}'; did you mean {' or '.join(meant)}?"
    return f"unknown {kind} '{name}'; known are {', '.join(sorted(spellings.values(), key=str.casefold)) or 'none'}"
