"""The contract of SqlEngine, which every implementation passes."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.data.columns import Column
from core.data.sql.catalog import Table
from core.data.sql.engine import EngineQuery, QueryCancelled, SqlEngine
from core.data.sql.service import open_sql_engine
from core.errors import BadInput, Conflict, Unavailable
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import Storage
from core.tables import new_id
from pipelines.sql.names import TableName
from pipelines.sql.statement import Select, parse
from tests.support.trino import ENDLESS, engine_settings

ORGANIZATION, RIVAL = "organization", "rival"


@pytest.fixture(scope="module", params=["duckdb", "trino"])
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings that select each engine."""
    data = tmp_path_factory.mktemp("data")
    return Settings(data=data, sql_timeout_seconds=60, **engine_settings(request.param))


@pytest.fixture(scope="module")
def storage(settings: Settings) -> Storage:
    return open_storage(settings.storage)


@pytest.fixture(scope="module")
def engine(settings: Settings, storage: Storage) -> Generator[SqlEngine]:
    engine = open_sql_engine(settings, storage)
    yield engine
    engine.close()


def store(storage: Storage, key: str, rows: pa.Table) -> None:
    content = io.BytesIO()
    pq.write_table(rows, content)
    content.seek(0)
    storage.put(key, content)


COLUMNS = (Column("id", "bigint"), Column("name", "string"))


def make_table(
    *locations: str, name: str = "products", rows: int | None = None, columns: tuple[Column, ...] = COLUMNS
) -> Table:
    return Table(new_id(), "shop", name, columns, "parquet", locations, None, rows, None)


@pytest.fixture(scope="module")
def products(storage: Storage) -> Table:
    store(storage, f"{ORGANIZATION}/a/part-0.parquet", pa.table({"id": [1, 2], "name": ["kettle", "mug"]}))
    return make_table(f"{ORGANIZATION}/a", rows=2)


def make_query(engine: SqlEngine, sql: str, *tables: Table, limit: int = 100, offset: int = 0) -> EngineQuery:
    """A query in Trino's dialect, rewritten for the engine as the query service does."""
    parsed = parse(sql)
    assert isinstance(parsed, Select)
    relations = {TableName(table.name): engine.register(ORGANIZATION, table) for table in tables}
    text = engine.translate(parsed, relations, limit, offset)
    return EngineQuery(new_id(), ORGANIZATION, text, tuple(relations.values()), parsed.explain)


@pytest.mark.parametrize("places", [("wider",), ("wider", "narrower")])
def test_a_table_has_the_columns_of_its_version_where_its_files_have_others(
    engine: SqlEngine, storage: Storage, places: tuple[str, ...]
) -> None:
    store(storage, f"{ORGANIZATION}/wider/part-0.parquet", pa.table({"id": [1, 2], "other": ["a", "b"]}))
    store(storage, f"{ORGANIZATION}/narrower/part-0.parquet", pa.table({"id": [3]}))
    table = make_table(*(f"{ORGANIZATION}/{place}" for place in places), name="others")
    page = engine.run(make_query(engine, "SELECT * FROM others WHERE name IS NULL ORDER BY others.id", table))
    assert page.columns == (Column("id", "bigint"), Column("name", "varchar"))
    assert page.rows == [{"id": number, "name": None} for number in range(1, len(places) + 2)]
    assert (page.row_count, json.loads(page.json)) == (len(page.rows), page.rows)
    with pytest.raises(BadInput, match="other"):
        engine.run(make_query(engine, "SELECT other FROM others", table))


def test_a_table_without_rows_has_its_columns(engine: SqlEngine) -> None:
    page = engine.run(make_query(engine, "SELECT * FROM nothing", make_table(name="nothing", rows=0)))
    assert page.columns == (Column("id", "bigint"), Column("name", "varchar"))
    assert page.rows == []


def test_register_refuses_files_of_another_organization(engine: SqlEngine, storage: Storage) -> None:
    store(storage, f"{RIVAL}/a/part-0.parquet", pa.table({"id": [1]}))
    for location in (f"{RIVAL}/a", f"{ORGANIZATION}/../{RIVAL}/a"):
        with pytest.raises(Unavailable):
            engine.register(ORGANIZATION, make_table(location, rows=1))


def test_register_refuses_a_table_whose_files_are_missing(engine: SqlEngine) -> None:
    with pytest.raises(Conflict, match=r"Files of version 1 of shop\.products are missing"):
        engine.register(ORGANIZATION, make_table(f"{ORGANIZATION}/missing", rows=1))


def test_a_query_reads_only_the_tables_of_its_organization(engine: SqlEngine, products: Table) -> None:
    query = make_query(engine, "SELECT id FROM products", products)
    with pytest.raises(BadInput):
        engine.run(EngineQuery(new_id(), RIVAL, query.sql, ()))


def test_cancel_stops_a_running_query_and_no_other(engine: SqlEngine) -> None:
    query = make_query(engine, ENDLESS)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(engine.run, query)
        while not engine.cancel(query.id):
            assert not running.done()
            threading.Event().wait(0.01)
        with pytest.raises(QueryCancelled):
            running.result(60)
    assert engine.cancel(query.id) is False
    assert engine.run(make_query(engine, "SELECT 1 AS x")).rows == [{"x": 1}]


def test_functions_are_lower_case_names(engine: SqlEngine) -> None:
    assert "count" in engine.functions
    assert all(name == name.lower() for name in engine.functions)
