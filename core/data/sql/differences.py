"""The SQL that compares two versions of a dataset by keys, in Trino's dialect.

The rows of both versions are grouped by all columns: a single row in its group has no equal row in the other
version. These few are then grouped by the keys, which occur once in each version. In groups, null is equal to null and
NaN to NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import ConfigDict

from core.data.columns import Column
from core.data.sql.catalog import Table
from core.errors import BadInput
from core.infra.records import RECORD
from pipelines.duckdb.views import quote_identifier, quote_literal
from pipelines.language.columns import ENGINE_COLUMNS

INTEGERS = ("tinyint", "smallint", "integer", "bigint")
MAX_SHOWN = 100  # characters of a key's value in a sentence
OLD, NEW = 1, 2  # the version of a row, in the column `side`
ROWS = {OLD: "row_before", NEW: "row_after"}


@dataclass(frozen=True, slots=True)
class ColumnDifferenceRecord:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    name: str
    """Name of the column."""
    before: str | None
    """Its SQL type in the first version; null where that lacks it."""
    after: str | None
    """Its SQL type in the second version; null where that lacks it."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """A column of both versions' rows in the SQL, which reads a column of one version or of both.

    Rows are `compared` by it, except by the engine's own columns.
    """

    alias: str
    type: str
    columns: Mapping[int, str]
    compared: bool

    @property
    def is_nested(self) -> bool:
        return self.type.startswith(("array", "map", "row"))

    def read(self, side: int) -> str:
        """Return the expression of a version's value."""
        name = self.columns.get(side)
        value = quote_identifier(name) if name is not None else f"CAST(NULL AS {self.type})"
        return f"{value} AS {self.alias}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions of a dataset, the names of their tables in SQL, and the keys of rows."""

    before: Table
    after: Table
    keys: Sequence[str]
    names: Sequence[str]
    slots: Sequence[_Slot]

    @classmethod
    def from_tables(cls, before: Table, after: Table, keys: Sequence[str], names: Sequence[str]) -> Self:
        """Raise BadInput for keys that are not columns of one type in both versions."""
        sides = {OLD: _map_columns(before), NEW: _map_columns(after)}
        for key in keys:
            types: list[str] = []
            for side, table in ((OLD, before), (NEW, after)):
                if (column := sides[side].get(key.casefold())) is None:
                    sentence = f"{table.title.capitalize()} has no column '{key}'. Name columns of both versions."
                    raise BadInput(sentence, code="COLUMN_NOT_FOUND", path="keys")
                types.append(column.type)
            if _join_types(*types) is None:
                sentence = (
                    f"The key '{key}' is {' and '.join(types)} in the two versions, so that no rows are compared."
                )
                raise BadInput(f"{sentence} Name keys of one type.", code="incomparable-keys", path="keys")
        folded = dict.fromkeys((*(key.casefold() for key in keys), *sides[OLD], *sides[NEW]))
        slots = [slot for name in folded for slot in _make_slots(name, sides)]
        return cls(before, after, keys, names, [_Slot(f"c{at}", *slot) for at, slot in enumerate(slots)])

    @property
    def tables(self) -> Mapping[str, Table]:
        """The versions under the names that the statements have for them."""
        return dict(zip(self.names, (self.before, self.after), strict=True))

    def report_repeated_key(self, row: Mapping[str, Any]) -> BadInput:
        """Return the error for a row of `select_repeated_keys`."""
        table = self.before if int(row["side"]) == OLD else self.after
        values = ("null" if row[alias] is None else str(row[alias])[:MAX_SHOWN] for alias in self._aliases)
        named = ", ".join(f"{key} {value}" for key, value in zip(self.keys, values, strict=True))
        sentence = f"Several rows of {table.title} have the same keys ({named}), so that no rows can be compared."
        return BadInput(f"{sentence} Name keys that tell them apart.", code="repeated-keys", path="keys")

    def list_column_differences(self) -> list[ColumnDifferenceRecord]:
        """Return the columns that one version lacks, or has with another type."""
        old, new = _map_columns(self.before), _map_columns(self.after)
        found = [(old.get(name), new.get(name)) for name in dict.fromkeys((*old, *new))]
        return [
            ColumnDifferenceRecord((two or one or Column("", "")).name, one and one.type, two and two.type)
            for one, two in found
            if (one and one.type) != (two and two.type)
        ]

    def select_repeated_keys(self) -> str:
        """Return the statement for a key that several rows of one version have, and the number of that version."""
        keys = ", ".join(self._aliases)
        each = (
            f"SELECT {side} AS side, {keys}, count(*) AS n FROM ({self._select(side)}) GROUP BY {keys} "  # noqa: S608 - quoted
            "HAVING count(*) > 1"
            for side in (OLD, NEW)
        )
        return f"SELECT * FROM ({' UNION ALL '.join(each)}) ORDER BY side, {keys} LIMIT 1"  # noqa: S608 - quoted

    def select_counts(self) -> str:
        """Return the statement for the numbers of added, removed and changed rows."""
        return (
            f"WITH differing AS ({self._select_differing()}), pairs AS (SELECT min(side) AS a, max(side) AS b "  # noqa: S608 - quoted
            f"FROM differing GROUP BY {', '.join(self._aliases)}) SELECT count_if(a = {NEW}) AS added, "
            f"count_if(b = {OLD}) AS removed, count_if(a < b) AS changed FROM pairs"
        )

    def select_rows(self) -> str:
        """Return the statement for the rows that differ, ordered by the keys."""
        keys = ", ".join(self._aliases)
        cells = ", ".join(
            f"{alias} AS {quote_identifier(key)}" for alias, key in zip(self._aliases, self.keys, strict=True)
        )
        rows = (
            f"any_value({self._build_row(side)}) FILTER (WHERE side = {side}) AS {name}" for side, name in ROWS.items()
        )
        rows = (*rows, *(f"{_count_values(slot)} AS {_name_test(slot)}" for slot in self._changing if slot.is_nested))
        kind = "CASE WHEN row_before IS NULL THEN 'added' WHEN row_after IS NULL THEN 'removed' ELSE 'changed' END"
        return (
            f"WITH differing AS ({self._select_differing()}), "  # noqa: S608 - quoted
            f"pairs AS (SELECT {keys}, {', '.join(rows)} FROM differing GROUP BY {keys}) "
            f"SELECT {kind} AS kind, {cells}, {self._list_changed()} AS changed, row_before AS before, "
            f"row_after AS after FROM pairs ORDER BY {keys}"
        )

    @property
    def _aliases(self) -> list[str]:
        """The keys' names in the SQL: their columns are the first ones."""
        return [slot.alias for slot in self.slots[: len(self.keys)]]

    @property
    def _changing(self) -> list[_Slot]:
        """The slots whose values may differ in rows with the same keys."""
        return [slot for slot in self.slots[len(self.keys) :] if slot.compared]

    def _select(self, side: int) -> str:
        cells = ", ".join(slot.read(side) for slot in self.slots)
        return f"SELECT {side} AS side, {cells} FROM {quote_identifier(self.names[side - 1])}"  # noqa: S608 - quoted

    def _select_differing(self) -> str:
        """Return the query for the rows that only one of the versions has."""
        compared = ", ".join(slot.alias for slot in self.slots if slot.compared)
        carried = "".join(f", any_value({slot.alias}) AS {slot.alias}" for slot in self.slots if not slot.compared)
        both = " UNION ALL ".join(map(self._select, (OLD, NEW)))
        return (
            f"SELECT min(side) AS side, {compared}{carried} FROM ({both}) "  # noqa: S608 - quoted
            f"GROUP BY {compared} HAVING count(*) = 1"
        )

    def _build_row(self, side: int) -> str:
        """Return a version's row with the columns and types that it has there."""
        aliases = {slot.columns[side]: slot.alias for slot in self.slots if side in slot.columns}
        columns = _map_columns(self.before if side == OLD else self.after).values()
        fields = ", ".join(f"{quote_identifier(column.name)} {column.type}" for column in columns)
        return f"CAST(ROW({', '.join(aliases[column.name] for column in columns)}) AS ROW({fields}))"

    def _list_changed(self) -> str:
        """Return the names of the columns whose values differ, in rows that both versions have."""
        tests: dict[str, list[str]] = {}
        for slot in self._changing:
            fields = [f"{ROWS[side]}.{quote_identifier(name)}" for side, name in slot.columns.items()]
            test = " IS DISTINCT FROM ".join(fields) if len(fields) > 1 else f"{fields[0]} IS NOT NULL"
            tests.setdefault([*slot.columns.values()][-1], []).append(_name_test(slot) if slot.is_nested else test)
        cases = (f"CASE WHEN {' OR '.join(found)} THEN {quote_literal(name)} END" for name, found in tests.items())
        every = f"filter(ARRAY[{', '.join(cases)}], n -> n IS NOT NULL)" if tests else "CAST(ARRAY[] AS array(varchar))"
        none = "CAST(ARRAY[] AS array(varchar))"
        return f"CASE WHEN row_before IS NULL OR row_after IS NULL THEN {none} ELSE {every} END"


def _name_test(slot: _Slot) -> str:
    return f"differs_{slot.alias}"


def _count_values(slot: _Slot) -> str:
    """Return the test for two different values, or a value and a null: DuckDB compares nested ones in groups only."""
    return f"(count(DISTINCT {slot.alias}) = 2 OR count({slot.alias}) = 1)"


def _map_columns(table: Table) -> dict[str, Column]:
    return {column.name.casefold(): column for column in table.get_trino_columns()}


def _join_types(old: str, new: str) -> str | None:
    """Return the type of both versions' values, the wider one of integers; null for values that cannot be compared."""
    if old == new:
        return old
    if old in INTEGERS and new in INTEGERS:
        return max(old, new, key=INTEGERS.index)
    return None


def _make_slots(name: str, sides: Mapping[int, Mapping[str, Column]]) -> list[tuple[str, dict[int, str], bool]]:
    """Return type, columns and use of the slots of a column: one, or two for types that cannot be compared."""
    found = {side: columns[name] for side, columns in sides.items() if name in columns}
    types = [column.type for column in found.values()]
    common = _join_types(types[0], types[-1])
    compared = name not in {each.casefold() for each in ENGINE_COLUMNS}
    if common is not None:
        return [(common, {side: column.name for side, column in found.items()}, compared)]
    return [(column.type, {side: column.name}, compared) for side, column in found.items()]
