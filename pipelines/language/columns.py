"""The columns of a table of rows while it is planned: names, types, and whether more may turn up at run time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ENGINE_COLUMNS = {
    "_url": "string",
    "_requestedUrl": "string",
    "_status": "int",
    "_error": "string",
    "_depth": "int",
    "_linkText": "string",
    "_ordinal": "array<bigint>",
    "_fetchedAt": "timestamp",
}


# what the engine calls its own on the way, without looking whether the rows have a column of the name
INTERNAL_COLUMNS = frozenset({"__link", "__level", "__open", "__row", "__place"})
_UNHELD = re.compile("[\0\ud800-\udfff]")  # neither Spark nor Arrow can be told these


@dataclass(frozen=True, slots=True)
class Columns:
    """Column names with Spark SQL types; `open` when a source may bring others, known only once it is read."""

    types: tuple[tuple[str, str], ...] = ()
    open: bool = False

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.types)

    def with_columns(self, added: tuple[tuple[str, str], ...]) -> Columns:
        """These columns and `added`; one that is here already stays where it stands and gets the new type."""
        return Columns(tuple({**dict(self.types), **dict(added)}.items()), self.open)

    def has(self, name: str) -> bool:
        """Whether a reference to `name` can be right, as far as is known before the run."""
        return self.open or name in tuple(self) or name in ENGINE_COLUMNS

    def find_unknown_in_sql(self, names: Iterable[str]) -> list[str]:
        """Of the names that SQL refers to, which ignores case, those that no column has."""
        known = {**dict(self.types), **ENGINE_COLUMNS}
        others = [name for name in names if name not in known]  # most often none: to fold them all takes long
        folded = {each.casefold() for each in known} if others else set[str]()
        return [name for name in others if name.casefold() not in folded]

    def find_clash(self) -> tuple[str, str] | None:
        """Two names that differ only in case, which neither Spark nor SQL can tell apart."""
        seen: dict[str, str] = {}
        for name in self:
            if name.casefold() in seen:
                return seen[name.casefold()], name
            seen[name.casefold()] = name
        return None

    def __str__(self) -> str:
        shown = [f"{name} {type_}" for name, type_ in self.types] + (["..."] if self.open else [])
        return ", ".join(shown) or "none"


def engine_fault(name: str) -> str | None:
    """Why a stage cannot make a column called `name`, where it is one of the engine's; None where it is not."""
    engine = {each.casefold(): each for each in ENGINE_COLUMNS}.get(name.casefold())
    if engine is None:
        return None
    return f"a column cannot be called {name}: it is the engine's own, which spindle.keepColumns puts in the output"


def name_fault(name: str) -> str | None:
    """Why a stage cannot call a column `name`; None where it can."""
    if not name:
        return "a column must have a name"
    if _UNHELD.search(name):
        return f"the column {name!a} has a character in its name that cannot be stored"
    if name.startswith("__") and not name.endswith("__"):  # pandas calls an index __index_level_0__
        return f"the column '{name}' begins with __, as columns do that the engine keeps to itself"
    return None
