"""Columns of a table of rows during planning: names, types, and whether the run may add others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipelines.errors import ArgumentError

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
# columns that the engine adds during a run without a check for clashes
INTERNAL_COLUMNS = frozenset({"__link", "__level", "__open", "__row", "__place"})
JSON = "json"  # type of a planned column whose values are those of a JSON page
UNKNOWN = "unknown"  # type of a planned column of a dataset that only a run reads
_OF_JSON = (JSON, f"array<{JSON}>")
_FIELD = re.compile(r"`(?:[^`]|``)*`|([<,]\s*)([^<>,:`]+)(?=:)")  # a quoted name, or one without quotes
# what Spark SQL and sqlglot read without quotes: for sqlglot these two words begin an expression
_PLAIN = re.compile(r"(?!(?:not|select)\Z)[a-z_][a-z0-9_]*", re.IGNORECASE | re.ASCII)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # in column names of Spark and Arrow


@dataclass(frozen=True, slots=True)
class Columns:
    """Column names with Spark SQL types; `open` when a source may bring columns that only the run can discover."""

    types: tuple[tuple[str, str], ...] = ()
    open: bool = False

    @property
    def json_names(self) -> tuple[str, ...]:
        """The columns of values of JSON, whose types only the rows of a run show."""
        return tuple(name for name, type_ in self.types if type_ in _OF_JSON)

    @property
    def are_known(self) -> bool:
        """Whether planning knows all columns and their types, apart from those of JSON values."""
        return not self.open and all(type_ != UNKNOWN for _, type_ in self.types)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.types)

    def with_columns(self, added: tuple[tuple[str, str], ...]) -> Columns:
        """Return these columns with `added`; an existing column keeps its position and takes the new type."""
        return Columns(tuple({**dict(self.types), **dict(added)}.items()), self.open)

    def has(self, name: str) -> bool:
        """Return whether a reference to `name` may be valid, as far as planning can decide."""
        return self.open or name in tuple(self) or name in ENGINE_COLUMNS

    def find_unknown_in_sql(self, names: Iterable[str]) -> list[str]:
        """Return those names from SQL, which ignores case, that no column has."""
        known = {**dict(self.types), **ENGINE_COLUMNS}
        others = [name for name in names if name not in known]  # usually empty, which saves the slow casefold
        folded = {each.casefold() for each in known} if others else set[str]()
        return [name for name in others if name.casefold() not in folded]

    def find_taken(self, names: Iterable[str]) -> list[str]:
        """Return those names that a column has already, in any case."""
        folded = {each.casefold() for each in self}
        return [name for name in names if name.casefold() in folded]

    def find_clash(self) -> tuple[str, str] | None:
        """Return two names that differ only in case, which Spark and SQL cannot distinguish."""
        seen: dict[str, str] = {}
        for name in self:
            if name.casefold() in seen:
                return seen[name.casefold()], name
            seen[name.casefold()] = name
        return None

    def __str__(self) -> str:
        shown = [f"{name} {type_}" for name, type_ in self.types] + (["..."] if self.open else [])
        return ", ".join(shown) or "none"


def add_engine_columns(columns: Columns) -> Columns:
    """Return the columns with those of the engine that have other names."""
    return columns.with_columns(tuple(each for each in ENGINE_COLUMNS.items() if each[0] not in tuple(columns)))


def quote_column(name: str) -> str:
    """Quote a column's name for Spark SQL."""
    return f"`{name.replace('`', '``')}`"


def quote_fields(type_: str) -> str:
    """Return a Spark SQL type with quotes around names of fields that need them: Spark names types without any."""
    return _FIELD.sub(_quote_field, type_)


def _quote_field(found: re.Match[str]) -> str:
    if found[2] is None or _PLAIN.fullmatch(name := found[2].strip()):
        return found[0]
    return f"{found[1]}`{name}`"


def list_fields(columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the names of columns, and after each those of its fields, however deep, as `column.field`."""
    for name, type_ in columns:
        yield name
        for found in _FIELD.finditer(type_):
            yield f"{name}.{found[2].strip() if found[2] else found[0][1:-1].replace('``', '`')}"


def declare_columns(columns: Iterable[tuple[str, str]]) -> str:
    """Return columns as Spark SQL declares them."""
    return ", ".join(f"{quote_column(name)} {quote_fields(type_)}" for name, type_ in columns)


def quote_text(text: str) -> str:
    """Quote a text for Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def check_not_reserved(name: str) -> None:
    """Raise ArgumentError if `name` is the name of an engine column."""
    if name.casefold() in {each.casefold() for each in ENGINE_COLUMNS}:
        raise ArgumentError(
            f"a column cannot be called {name}: it is the engine's own, which spindle.keepColumns puts in the output",
            "reserved-column",
        )


def check_column_name(name: str) -> None:
    """Raise ArgumentError if a stage cannot create a column of this name."""
    if not name:
        raise ArgumentError("a column must have a name", "invalid-column-name")
    if _UNSTORABLE.search(name):
        raise ArgumentError(
            f"the column {name!a} has a character in its name that cannot be stored", "invalid-column-name"
        )
    if name.startswith("__") and not name.endswith("__"):  # pandas calls an index __index_level_0__
        raise ArgumentError(f"the column '{name}' begins with __, which is reserved for the engine", "reserved-column")


def list_own_columns(names: Iterable[str]) -> list[str]:
    """Return the names that are not the engine's."""
    return [name for name in names if name not in ENGINE_COLUMNS and name not in INTERNAL_COLUMNS]
