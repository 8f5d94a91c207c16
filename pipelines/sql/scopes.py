"""The columns that a place in a statement sees, by Trino's rules: no alias of the same SELECT but in its ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from pipelines.errors import SqlError
from pipelines.sql.types import Type

Output = Sequence[tuple[str, Type | None]]


@dataclass(slots=True)
class FromItem:
    """A table, subquery or UNNEST in FROM. Its columns may be unknown."""

    name: str
    columns: Output | None

    def find(self, name: str) -> list[Type | None]:
        return [type for column, type in self.columns or () if column == name]


@dataclass(slots=True)
class Scope:
    """The sources of one SELECT, the parameters of a lambda or the outputs for ORDER BY, and the scope around them."""

    outer: Scope | None = None
    sources: list[FromItem] = field(default_factory=list[FromItem])
    names: dict[str, Type | None] = field(default_factory=dict[str, "Type | None"])
    joined: set[str] = field(default_factory=set[str])  # the columns of USING, which belong to no source

    def find_column(self, column: exp.Column) -> Type | None:
        """Return the type of a column if it is known. Raises SqlError for one that no source has."""
        name, table = column.name.lower(), column.table.lower()
        if column.db:
            return None
        found = self._find_name(name) if not table else self._find_qualified(table, name)
        if found is None:
            sentence = f"Column '{column.sql('trino')}' cannot be resolved."
            raise SqlError(sentence, code="COLUMN_NOT_FOUND")
        return found[0]

    def find_name(self, name: str) -> Type | None:
        """Return the type of a name without a table, if it is known."""
        found = self._find_name(name.lower())
        return found[0] if found else None

    def _find_name(self, name: str) -> list[Type | None] | None:
        """Return a list of the type; None where no scope has the name."""
        if name in self.names:
            return [self.names[name]]
        if any(source.columns is None for source in self.sources):
            return [None]
        for source in self.sources:
            if found := source.find(name):
                return found[:1]
        return self.outer._find_name(name) if self.outer else None

    def _find_qualified(self, table: str, name: str) -> list[Type | None] | None:
        for source in self.sources:
            if source.name == table:
                if source.columns is None:
                    return [None]
                if name in self.joined:
                    return None
                return source.find(name)[:1] or None
        if self.outer is not None and not any(source.find(table) for source in self.sources):
            return self.outer._find_qualified(table, name)
        row = self._find_name(table)
        return row and [find_field(row[0], name)]


def find_field(row: Type | None, name: str) -> Type | None:
    """Return the type of a row's field, if it is known. Raises SqlError for a field that the row does not have."""
    if row is None or row.name != "row" or not row.fields:
        return None
    for field_, type in zip(row.fields, row.items, strict=True):
        if field_.lower() == name.lower():
            return type
    fields = ", ".join(each for each in row.fields if each) or "none with a name"
    raise SqlError(f"The row has no field '{name}'; it has {fields}.", code="COLUMN_NOT_FOUND")
