"""Trino as a SqlEngine: statements run there as the organization's user, over registered tables."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from sqlglot import exp

from core.data.columns import Column
from core.data.sql.catalog import Table
from core.data.sql.engine import EngineQuery, Relation, ResultPage, StoredResult, report_refusals, report_size_limit
from core.data.sql.rows import MAX_PAGE_BYTES, RowsTooLarge, encode_rows
from core.data.sql.trino.access import AccessRules, name_user
from core.data.sql.trino.client import TableGone, TrinoClient, TrinoStatement
from core.data.sql.trino.tables import TrinoTables, repeat
from core.data.sql.trino.text import write_page
from core.data.sql.trino.values import ParquetRows, describe_type, name_type, plain_value
from core.errors import BadInput, Unavailable
from core.infra.settings import Settings
from core.infra.storage.protocol import Storage
from pipelines.duckdb.values import make_converter
from pipelines.sql.column_names import make_unique
from pipelines.sql.gate import TRINO_FUNCTIONS
from pipelines.sql.names import TableName
from pipelines.sql.statement import Select

T = TypeVar("T")


class TrinoEngine:
    """Implements SqlEngine with one Trino, which may have other users."""

    functions: Set[str] = TRINO_FUNCTIONS

    def __init__(self, settings: Settings, storage: Storage, client: TrinoClient) -> None:
        self._settings = settings
        self._storage = storage
        self._client = client
        self._tables = TrinoTables(client, storage, AccessRules(settings.trino.rules, client))
        self._lock = Lock()
        self._running: dict[str, TrinoStatement] = {}

    def register(self, organization_id: str, table: Table) -> Relation:
        return Relation(table, self._tables.register(organization_id, table))

    def translate(
        self, query: Select, relations: Mapping[TableName, Relation | exp.Select], limit: int | None, offset: int
    ) -> str:
        with report_refusals():
            return write_page(query, relations, limit, offset)

    def run(self, query: EngineQuery) -> ResultPage:
        return self._repeat_if_gone(query, lambda: self._run(query))

    def store(self, query: EngineQuery, key: str, report_progress: Callable[[float], object]) -> StoredResult:
        return self._repeat_if_gone(query, lambda: self._store(query, key, report_progress))

    def cancel(self, query_id: str) -> bool:
        with self._lock:
            statement = self._running.get(query_id)
        if statement is None:
            return False
        statement.cancel()
        return True

    def check(self) -> None:
        self._client.check()

    def close(self) -> None:
        self._client.close()

    def _run(self, query: EngineQuery) -> ResultPage:
        with self._start(query, self._settings.sql.timeout_seconds) as statement:
            try:
                with closing(_read_rows(statement, query)) as objects:  # ends the statement
                    count, rows = encode_rows(objects)
            except RowsTooLarge:
                raise report_size_limit(MAX_PAGE_BYTES) from None
            return ResultPage(_list_columns(statement, query.relations), count, rows)

    def _store(self, query: EngineQuery, key: str, report_progress: Callable[[float], object]) -> StoredResult:
        max_bytes = int(self._settings.sql.result_gigabytes * 1e9)
        with (
            tempfile.TemporaryDirectory(prefix="spindle-", ignore_cleanup_errors=True) as scratch,
            self._start(query, self._settings.sql.async_timeout_seconds, report_progress) as statement,
        ):
            file = Path(scratch) / "rows.parquet"
            rows = ParquetRows(file, max_bytes)
            for batch in statement.read():
                rows.write(statement.columns, _list_names(statement, query.relations), batch)
            rows.close(statement.columns, _list_names(statement, query.relations))
            with file.open("rb") as content:
                stored = self._storage.put(key, content)
            return StoredResult(_list_columns(statement, query.relations), rows.count, stored.size_bytes)

    @contextmanager
    def _start(
        self, query: EngineQuery, seconds: float, report_progress: Callable[[float], object] = lambda _: None
    ) -> Generator[TrinoStatement]:
        """Give the statement, which can be cancelled by the query's id while the block runs."""
        sql = f"EXPLAIN {query.sql}" if query.explain else query.sql
        statement = self._client.start(name_user(query.organization_id), sql, seconds, report_progress)
        with self._lock:
            self._running[query.id] = statement
        try:
            yield statement
        finally:
            with self._lock:
                del self._running[query.id]

    def _repeat_if_gone(self, query: EngineQuery, run: Callable[[], T]) -> T:
        """Run a query; when Trino has lost its tables, register them again and run it once more."""
        try:
            return repeat(run, _is_of_metastore)
        except TableGone:
            self._tables.forget(name_user(query.organization_id))
            for relation in query.relations:
                self._tables.register(query.organization_id, relation.table)
        try:
            return repeat(run, _is_of_metastore)
        except TableGone as error:
            raise BadInput("The query reads a table that it does not name.", code="unknown-table") from error


def open_trino_engine(settings: Settings, storage: Storage) -> TrinoEngine:
    return TrinoEngine(settings, storage, TrinoClient(settings.trino))


def _is_of_metastore(error: BadInput | Unavailable) -> bool:
    """Return whether a query may have found half of a table's description, since a process was registering it."""
    return error.details[0].code == "HIVE_METASTORE_ERROR"


def _read_rows(statement: TrinoStatement, query: EngineQuery) -> Generator[dict[str, Any]]:
    """Yield the rows with JSON values."""
    for batch in statement.read():
        names = _list_names(statement, query.relations)
        types = [describe_type(column["typeSignature"]) for column in statement.columns]
        converters = [make_converter(type, query.exact_numbers) for type in types]
        for row in batch:
            yield {
                name: to_json(plain_value(value)) for name, to_json, value in zip(names, converters, row, strict=True)
            }


def _list_names(statement: TrinoStatement, relations: Sequence[Relation]) -> list[str]:
    """Return unique names of the columns; those of tables are spelled as in the table, which Trino does not keep."""
    spelled = {column.name.lower(): column.name for relation in relations for column in relation.table.columns}
    names = [str(column["name"]) for column in statement.columns]
    return make_unique([spelled.get(name.lower(), name) for name in names])


def _list_columns(statement: TrinoStatement, relations: Sequence[Relation]) -> tuple[Column, ...]:
    names = _list_names(statement, relations)
    return tuple(
        Column(name, name_type(column["typeSignature"])) for name, column in zip(names, statement.columns, strict=True)
    )
