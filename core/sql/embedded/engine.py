"""DuckDB as a SqlEngine: queries run in processes of their organization, over the Parquet files of their tables."""

from __future__ import annotations

from collections.abc import Set

from core.errors import BadInput, SpindleError, TooLarge, Unavailable
from core.infra.storage.protocol import InvalidKey, Storage
from core.sql.catalog import Column, Table, convert_type
from core.sql.embedded.functions import ALLOWED
from core.sql.embedded.pool import Pool, WorkerDied, WorkerTimedOut
from core.sql.engine import EngineQuery, QueryCancelled, Relation, ResultPage

MAX_BYTES = 32 * 2**20
OUT_OF_MEMORY = "The query needed more memory than it may have and was stopped; narrow it."


class DuckDbEngine:
    """Implements SqlEngine with the workers of a pool."""

    dialect = "duckdb"
    functions: Set[str] = ALLOWED

    def __init__(self, storage: Storage, pool: Pool, timeout_seconds: float) -> None:
        self._storage = storage
        self._timeout_seconds = timeout_seconds
        self._pool = pool

    def register(self, organization_id: str, table: Table) -> Relation:
        """List the table's files. Queries read them through a view, whose name is `schema.table` as one identifier."""
        files = tuple(file for folder in table.locations for file in self._list_files(organization_id, folder))
        if table.row_count and not files:
            raise Unavailable(f"The files of the table {table.full_name} are missing.", code="missing-files")
        return Relation(table, (table.full_name,), files)

    def run(self, query: EngineQuery) -> ResultPage:
        request = {
            "sql": query.sql,
            "views": [_describe_view(relation) for relation in query.relations],
            "explain": query.explain,
            "exactNumbers": query.exact_numbers,
            "maxBytes": MAX_BYTES,
        }
        try:
            answer = self._pool.run(query.organization_id, query.id, request, self._timeout_seconds)
        except WorkerTimedOut:
            sentence = f"The query took longer than {self._timeout_seconds:g} seconds and was stopped; narrow it."
            raise BadInput(sentence, code="query-timeout") from None
        except WorkerDied as error:
            if error.cancelled:
                raise QueryCancelled("The query was cancelled.") from None
            raise BadInput(OUT_OF_MEMORY, code="query-memory") from None
        if "error" in answer.header:
            raise _convert_error(answer.header["error"], answer.header["message"])
        columns = tuple(Column(name, convert_type(type, "duckdb", "trino")) for name, type in answer.header["columns"])
        return ResultPage(columns, answer.header["rows"], answer.body)

    def cancel(self, query_id: str) -> bool:
        return self._pool.cancel(query_id)

    def close(self) -> None:
        self._pool.close()

    def _list_files(self, organization_id: str, folder: str) -> list[str]:
        """Return the Parquet files directly in a folder, which must be in the organization's own storage."""
        try:
            if not folder.startswith(f"{organization_id}/"):
                raise InvalidKey(folder)
            keys = [file.key for file in self._storage.list(folder) if file.key.endswith(".parquet")]
            return [self._storage.url_for(key, "sql") for key in keys if key.rpartition("/")[0] == folder]
        except InvalidKey:
            sentence = "The files of this table are outside the organization's storage."
            raise Unavailable(sentence, code="foreign-files") from None


def _describe_view(relation: Relation) -> dict[str, object]:
    """Return the arguments of the query process's View. Without files it needs the columns' types."""
    columns = [(column.name, convert_type(column.type, "spark", "duckdb")) for column in relation.table.columns]
    return {"name": relation.identifiers[0], "files": relation.files, "columns": columns}


def _convert_error(kind: str, message: str) -> SpindleError:
    match kind:
        case "too large":
            return TooLarge(f"The answer is larger than {MAX_BYTES // 2**20} MiB; ask for fewer rows or columns.")
        case "memory":
            return BadInput(OUT_OF_MEMORY, code="query-memory")
        case "refused":
            return BadInput(message, code="query-refused")
        case _:
            return BadInput(message, code="query-failed")
