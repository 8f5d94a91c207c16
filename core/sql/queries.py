"""What a caller asks of SQL: rows of a query, and the names of schemas, tables and columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from core.errors import BadInput, NotFound, TooLarge, Unavailable
from core.infra.database import Database
from core.infra.settings import Settings
from core.infra.storage.protocol import InvalidKey, Storage
from core.sql import statement
from core.sql.catalog import Catalog, Column, Table
from core.sql.gate import Rewritten, rewrite, table_names
from core.sql.names import NameScope, TableName, name_scope, unknown_table
from core.sql.pool import Died, Pool, TimedOut

DEFAULT_ROWS = 1000
MAX_ROWS = 10_000
MAX_BYTES = 32 * 2**20
NO_DATASET = "There is no dataset with this id."


@dataclass(frozen=True, slots=True)
class Query:
    """One request: `catalog` and `schema` are the session's defaults, `dataset_id` binds it to one dataset."""

    sql: str
    catalog: str | None = None
    schema: str | None = None
    limit: int = DEFAULT_ROWS
    offset: int = 0
    dataset_id: str | None = None
    big_numbers: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """Columns under Trino's type names, and the rows as the JSON text of an array of objects."""

    columns: tuple[Column, ...]
    row_count: int
    json: bytes

    @property
    def rows(self) -> list[dict[str, Any]]:
        return json.loads(self.json)


class Queries:
    """SQL over the datasets of any organization, always of the one that is named."""

    def __init__(self, settings: Settings, database: Database, storage: Storage, pool: Pool) -> None:
        self._settings = settings
        self._database = database
        self._storage = storage
        self._pool = pool

    def run(self, organization_id: str, query: Query) -> Result:
        """Raises BadInput, NotFound (the bound dataset), TooLarge (32 MiB) or Unavailable."""
        if not (0 <= query.limit <= MAX_ROWS and query.offset >= 0):
            raise BadInput(f"limit is at most {MAX_ROWS:,} and neither limit nor offset is negative.")
        parsed = statement.parse(query.sql)
        with self._database.read() as session:
            catalog = Catalog(session, organization_id)
            bound = _bound(catalog, query.dataset_id)
            scope = name_scope(self._settings, query.catalog, query.schema, bound)
            if not isinstance(parsed, statement.Query):
                return _paged(self._names(parsed, scope, catalog), query)
            rewritten = _rewritten(parsed, scope, catalog, query)
        return self._execute(organization_id, rewritten, parsed.explain, query.big_numbers)

    def tables(self, organization_id: str, catalog: str | None = None, schema: str | None = None) -> list[Table]:
        """The published tables, of one schema or of all."""
        scope = name_scope(self._settings, catalog, schema)
        with self._database.read() as session:
            return Catalog(session, organization_id).tables(scope.schema)

    def columns(self, organization_id: str, table: str, catalog: str | None, schema: str | None) -> tuple[Column, ...]:
        """The columns of one table, under Trino's type names; BadInput when there is no such table."""
        scope = name_scope(self._settings, catalog, schema)
        with self._database.read() as session:
            return trino_columns(_resolve(TableName(table.lower()), scope, Catalog(session, organization_id)))

    def table(self, organization_id: str, dataset_id: str) -> Table:
        """The table that stands for one dataset; NotFound while nothing is published under this id."""
        with self._database.read() as session:
            found = _bound(Catalog(session, organization_id), dataset_id)
        return cast(Table, found)

    def _names(self, parsed: statement.Statement, scope: NameScope, catalog: Catalog) -> Result:
        match parsed:
            case statement.ShowCatalogs():
                return _names_result("Catalog", [self._settings.sql_catalog])
            case statement.ShowSchemas():
                scope.check_catalog(parsed.catalog)
                return _names_result("Schema", sorted({table.schema for table in catalog.tables()}))
            case statement.ShowTables():
                scope.check_catalog(parsed.catalog)
                return _names_result("Table", [table.name for table in catalog.tables(parsed.schema or scope.schema)])
            case statement.ShowColumns():
                columns = trino_columns(_resolve(parsed.table, scope, catalog))
                return _result(("Column", "Type"), [(column.name, column.type) for column in columns])
            case statement.Query():
                raise TypeError("a query is run, not answered from names")

    def _execute(self, organization_id: str, rewritten: Rewritten, explain: bool, big_numbers: bool) -> Result:
        views = [_view(self._storage, organization_id, table) for table in rewritten.tables]
        request = {"sql": rewritten.sql, "views": views, "explain": explain, "bigNumbers": big_numbers}
        seconds = self._settings.sql_timeout_seconds
        try:
            answer = self._pool.run(organization_id, request | {"maxBytes": MAX_BYTES}, seconds)
        except TimedOut:
            raise BadInput(f"The query took longer than {seconds:g} seconds and was stopped; narrow it.") from None
        except Died:
            raise BadInput("The query needed more memory than it may have and was stopped; narrow it.") from None
        if "error" in answer.header:
            raise _error(answer.header)
        columns = tuple(Column(name, trino_type(type, "duckdb")) for name, type in answer.header["columns"])
        return Result(columns, answer.header["rows"], answer.body)


def trino_columns(table: Table) -> tuple[Column, ...]:
    """The table's columns under Trino's type names, the ones that its SQL is written in."""
    return tuple(Column(column.name, trino_type(column.type, "spark")) for column in table.columns)


def trino_type(type: str, dialect: str) -> str:
    return _type(type, dialect, "trino").lower()


def _type(type: str, source: str, target: str) -> str:
    """`type` in another dialect; text where it is none that both know, since a driver told it."""
    try:
        return exp.DataType.build(type, dialect=source).sql(target, unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, ValueError):
        return "VARCHAR"


def _bound(catalog: Catalog, dataset_id: str | None) -> Table | None:
    if dataset_id is None:
        return None
    table = catalog.dataset(dataset_id)
    if table is None:
        raise NotFound(NO_DATASET)
    return table


def _rewritten(parsed: statement.Query, scope: NameScope, catalog: Catalog, query: Query) -> Rewritten:
    tables = catalog.named({name.name for name in table_names(parsed.tree)})

    def resolve(name: TableName) -> Table:
        found = scope.resolve(name, tables)
        if found is None:
            raise unknown_table(name, catalog.tables())
        return found

    return rewrite(parsed.tree, resolve, query.limit, query.offset)


def _resolve(name: TableName, scope: NameScope, catalog: Catalog) -> Table:
    found = scope.resolve(name, catalog.named({name.name}))
    if found is None:
        raise unknown_table(name, catalog.tables())
    return found


def _view(storage: Storage, organization_id: str, table: Table) -> dict[str, Any]:
    files = [file for key in table.folders for file in _data_files(storage, organization_id, key)]
    if table.row_count and not files:
        raise Unavailable(f"The files of the table {table.view} are not there.")
    columns = [(column.name, _type(column.type, "spark", "duckdb")) for column in table.columns]
    return {"name": table.view, "files": files, "columns": columns}


def _data_files(storage: Storage, organization_id: str, folder: str) -> list[str]:
    """Return the Parquet files of one published folder, which must be in the organization's own storage."""
    try:
        if not folder.startswith(f"{organization_id}/"):
            raise InvalidKey(folder)
        keys = [file.key for file in storage.list(folder) if file.key.endswith(".parquet")]
        return [storage.url_for(key, "sql") for key in keys if key.rpartition("/")[0] == folder]
    except InvalidKey:
        raise Unavailable("The files of this table are outside the organization's storage.") from None


def _error(header: dict[str, Any]) -> BadInput | TooLarge:
    match header["error"]:
        case "too large":
            return TooLarge(f"The answer is larger than {MAX_BYTES // 2**20} MiB; ask for fewer rows or columns.")
        case "memory":
            return BadInput("The query needed more memory than it may have and was stopped; narrow it.")
        case _:
            return BadInput(header["message"])


def _names_result(column: str, names: Sequence[str]) -> Result:
    return _result((column,), [(name,) for name in names])


def _result(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Result:
    objects = [dict(zip(columns, row, strict=True)) for row in rows]
    return Result(tuple(Column(name, "varchar") for name in columns), len(rows), json.dumps(objects).encode())


def _paged(result: Result, query: Query) -> Result:
    rows = result.rows[query.offset : query.offset + query.limit]
    return Result(result.columns, len(rows), json.dumps(rows).encode())
