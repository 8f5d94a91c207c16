"""Rows of datasets as pages show them: long texts are cut by the query, so that no page carries them whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.console.rendering import CELL_LENGTH
from api.console.texts import TEXT
from api.kit.concurrency import QUERIES
from api.kit.services import Services
from core.data.sql.service import Query
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, SpindleError
from pipelines.duckdb.views import quote_identifier, quote_literal

ALL = "SELECT * FROM output"
MOST_CELLS, MOST_CHARACTERS, SHORTEST_CELL = 1500, 30_000, 20  # of a page: a wide table has fewer and shorter cells
COMPARISONS = {
    "contains": TEXT.dataset.contains,
    "=": TEXT.dataset.is_equal,
    "<>": TEXT.dataset.is_not,
    "<": TEXT.dataset.is_less_than,
    ">": TEXT.dataset.is_more_than,
    "empty": TEXT.dataset.is_empty,
    "filled": TEXT.dataset.is_not_empty,
}
"""Comparisons of a filter with their words."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter and an order of rows, as a person chose them; an empty text stands for no choice."""

    column: str = ""
    comparison: str = ""
    value: str = ""
    sort: str = ""
    descending: bool = False

    def build_clauses(self, columns: Mapping[str, str]) -> str:
        """Return WHERE and ORDER BY; raise BadInput for a column or comparison that is unknown."""
        where = f" WHERE {self._build_condition(columns)}" if self.column else ""
        if not self.sort:
            return where
        _find_type(columns, self.sort)
        direction = "DESC" if self.descending else "ASC"
        return f"{where} ORDER BY {quote_identifier(self.sort)} {direction} NULLS LAST"

    def _build_condition(self, columns: Mapping[str, str]) -> str:
        type_ = _find_type(columns, self.column)
        column, value = quote_identifier(self.column), quote_literal(self.value)
        match self.comparison:
            case "contains" | "":
                return f"strpos(lower(CAST({column} AS varchar)), lower({value})) > 0"
            case "empty":
                return f"{column} IS NULL"
            case "filled":
                return f"{column} IS NOT NULL"
            case "=" | "<>" | "<" | ">":
                typed = value if type_.startswith("varchar") else f"CAST({value} AS {type_})"
                return f"{column} {self.comparison} {typed}"
            case _:
                raise BadInput("This comparison is unknown.", path="comparison")


def _find_type(columns: Mapping[str, str], name: str) -> str:
    if name not in columns:
        raise BadInput("The dataset has no column of this name.", path="column")
    return columns[name]


NO_SELECTION = Selection()


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns as (name, SQL type) and at most `limit` rows by column name; `problem` says why there are none."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[dict[str, Any]]
    more: bool
    limit: int
    problem: str | None = None


def load_rows(
    services: Services,
    caller: Identity,
    dataset_id: str,
    *,
    limit: int,
    offset: int = 0,
    version: str | None = None,
    execution_id: str | None = None,
    selection: Selection = NO_SELECTION,
) -> Rows:
    """Return rows of the dataset: its current version, another one, or what an execution published."""
    columns: Sequence[tuple[str, str]] = ()
    try:
        with QUERIES.acquire(caller.organization_id):
            bound = Query(ALL, limit=0, dataset_id=dataset_id, version=version, execution_id=execution_id)
            columns = [(each.name, each.type) for each in services.queries.run(caller, bound).page.columns]
            width = max(len(columns), 1)
            limit = max(min(limit, MOST_CELLS // width), 1)
            length = min(max(MOST_CHARACTERS // (limit * width), SHORTEST_CELL), CELL_LENGTH)
            chosen = ", ".join(_cut(name, type_, length) for name, type_ in columns)
            query = Query(
                f"SELECT {chosen} FROM output{selection.build_clauses(dict(columns))}",  # noqa: S608 - quoted
                limit=limit + 1,
                offset=offset,
                dataset_id=dataset_id,
                version=version,
                execution_id=execution_id,
            )
            rows = services.queries.run(caller, query).page.rows
    except SpindleError as error:
        return Rows(columns, (), False, limit, error.sentence)
    return Rows(columns, rows[:limit], len(rows) > limit, limit)


def _cut(name: str, type_: str, length: int) -> str:
    quoted = quote_identifier(name)
    return f"substr({quoted}, 1, {length}) AS {quoted}" if type_.startswith("varchar") else quoted
