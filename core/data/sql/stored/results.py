"""Reading of stored results: pages as JSON, and files in other formats."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from core.data.columns import Column
from core.data.files.process import FileReader
from core.data.sql.catalog import Table
from core.data.sql.embedded.engine import DuckDbEngine, WorkerLimits
from core.data.sql.embedded.pool import Pool
from core.data.sql.engine import EngineQuery, Relation, ResultPage, SqlEngine
from core.errors import Unavailable
from core.infra.settings import Settings
from core.infra.storage.protocol import Storage, query_key
from core.tables import new_id

RESULT = "result"


def open_result_reader(settings: Settings, storage: Storage, engine: SqlEngine, files: FileReader) -> ResultReader:
    """Return a reader that shares the query processes of the engine, if it has some."""
    if not isinstance(engine, DuckDbEngine):
        pool = Pool(settings.data.resolve() / "sql", keep_spare=False)
        limits = WorkerLimits(pool, settings.sql.timeout_seconds)
        engine = DuckDbEngine(storage, limits, limits)
    return ResultReader(storage, engine, files)


class ResultReader:
    """Reads results with DuckDB, whatever engine wrote them: they are Parquet files."""

    def __init__(self, storage: Storage, reader: DuckDbEngine, files: FileReader) -> None:
        self._storage = storage
        self._reader = reader
        self._files = files

    def close(self) -> None:
        self._reader.close()

    def read_page(
        self,
        organization_id: str,
        query_id: str,
        columns: tuple[Column, ...],
        limit: int,
        offset: int,
        exact_numbers: bool,
    ) -> ResultPage:
        """Return rows under the result's own types."""
        url = self._storage.url_for(query_key(organization_id, query_id), "signed")
        table = Table(query_id, "", RESULT, (), "parquet", (), None, None, None)
        sql = f"SELECT * FROM {RESULT} LIMIT {limit:d} OFFSET {offset:d}"  # noqa: S608 - numbers
        relation = Relation(table, (RESULT,), (url,))
        query = EngineQuery(new_id(), organization_id, sql, (relation,), exact_numbers=exact_numbers)
        return replace(self._reader.run(query), columns=columns)

    def export(self, key: str, format: str) -> Generator[bytes]:
        """Yield the rows in a format. Raises Unavailable when the result cannot be read."""
        if next(iter(self._storage.list(key.rpartition("/")[0])), None) is None:
            raise Unavailable("The result of this query is missing.", code="missing-files")
        return self._files.export([self._storage.url_for(key, "signed")], "parquet", format, [])
