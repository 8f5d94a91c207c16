"""Versions of every format, in a folder and in a bucket, as both engines read them."""

from __future__ import annotations

import io
import re
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.data.columns import Column
from core.data.sql.catalog import Catalog, Table
from core.data.sql.embedded.pool import Pool
from core.data.sql.engine import EngineQuery, StoredResult
from core.data.sql.service import Query, open_sql_engine
from core.data.sql.trino.access import name_user
from core.data.sql.trino.client import TrinoClient
from core.data.sql.trino.engine import TrinoEngine
from core.errors import BadInput, Unavailable
from core.infra.storage import open_storage
from core.infra.storage.protocol import query_key, table_key
from core.tables import DatasetVersion, new_id
from tests.support.s3 import get_bucket
from tests.support.stored import store_rows
from tests.support.trino import ENGINES
from tests.support.warehouse import PRODUCT_COLUMNS, PRODUCTS, Warehouse, make_warehouse

FORMATS = ("parquet", "delta", "iceberg")
MOMENT = datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
GOODS = pa.table(
    {
        "Id": [1, 2, 3, 4],
        "code": ["a/b c%=", None, "x+y", "d"],
        "size": [1, 2, 1, 2],
        "day": [date(2024, 2, 29), date(2024, 3, 1), None, date(1969, 7, 20)],
        "price": [Decimal("1.50"), Decimal("-2.00"), Decimal("1.50"), None],
        "moment": pa.array([MOMENT, None, MOMENT, MOMENT], pa.timestamp("us", "UTC")),
        "Flag": [True, False, None, True],
    },
    pa.schema(
        [
            *(("Id", pa.int64()), ("code", pa.string()), ("size", pa.int32()), ("day", pa.date32())),
            *(("price", pa.decimal128(12, 2)), ("moment", pa.timestamp("us", "UTC")), ("Flag", pa.bool_())),
        ]
    ),
)
GOODS_TYPES = ("bigint", "string", "int", "date", "decimal(12,2)", "timestamp", "boolean")
GOODS_COLUMNS = [{"name": name, "type": type_} for name, type_ in zip(GOODS.column_names, GOODS_TYPES, strict=True)]
ROWS = [
    {
        **{"Id": 1, "code": "a/b c%=", "size": 1, "day": "2024-02-29", "price": 1.5},
        **{"moment": "2024-02-29T23:59:59.123456Z", "Flag": True},
    },
    {"Id": 2, "code": None, "size": 2, "day": "2024-03-01", "price": -2.0, "moment": None, "Flag": False},
    {
        **{"Id": 3, "code": "x+y", "size": 1, "day": None, "price": 1.5},
        **{"moment": "2024-02-29T23:59:59.123456Z", "Flag": None},
    },
    {
        **{"Id": 4, "code": "d", "size": 2, "day": "1969-07-20", "price": None},
        **{"moment": "2024-02-29T23:59:59.123456Z", "Flag": True},
    },
]


PLACES = [f"{engine}-{storage}" for engine in ENGINES for storage in ("folder", "bucket")]


@pytest.fixture(scope="module", params=PLACES)
def warehouse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, pool: Pool
) -> Generator[Warehouse]:
    engine, storage = request.param.split("-")
    bucket = get_bucket() if storage == "bucket" else None
    yield from make_warehouse(tmp_path_factory.mktemp("storages"), pool, engine, bucket)


@pytest.fixture
def on_trino(warehouse: Warehouse) -> Warehouse:
    if warehouse.settings.trino.address is None:
        pytest.skip("it concerns tables of Trino")
    return warehouse


def load_table(warehouse: Warehouse, dataset_id: str) -> Table:
    with warehouse.database.read() as session:
        found = Catalog(session, warehouse.ids["acme"]).find_by_dataset(dataset_id)
    assert found is not None
    return found


@pytest.mark.long
@pytest.mark.parametrize("format_", FORMATS)
def test_versions_are_read_each_with_its_own_rows(warehouse: Warehouse, format_: str) -> None:
    name = f"goods_{format_}"
    more = PRODUCTS.append_column("extra", pa.array(["x", "y", None])) if format_ == "parquet" else PRODUCTS
    columns = [*PRODUCT_COLUMNS, {"name": "extra", "type": "string"}] if format_ == "parquet" else PRODUCT_COLUMNS
    dataset = warehouse.publish("acme", "shop", name, PRODUCTS.slice(0, 1), PRODUCT_COLUMNS, format_)
    first = warehouse.rows(f"SELECT * FROM shop.{name} ORDER BY id")
    assert first == [{"id": 1, "name": "kettle", "price": 19.5}]
    warehouse.publish("acme", "shop", name, more, columns, format_)
    count = 3 if format_ == "parquet" else 4
    assert warehouse.rows(f"SELECT count(*) AS n FROM shop.{name}") == [{"n": count}]
    with warehouse.database.read() as session:
        query = session.query(DatasetVersion).filter_by(dataset_id=dataset)
        versions = [each.id for each in query.order_by(DatasetVersion.id)]
    bound = Query("SELECT id FROM dataset", dataset_id=dataset, version=versions[0])
    assert warehouse.queries.run(warehouse.caller("acme"), bound).page.rows == [{"id": 1}]


@pytest.mark.long
@pytest.mark.parametrize(
    ("format_", "partition_by"),
    [
        *(("parquet", each) for each in ((), ("code",), ("Flag", "day"), ("moment", "price"))),
        *(("delta", each) for each in ((), ("Flag", "day"))),
        *(("iceberg", each) for each in (("code",), ("moment", "price"))),
    ],
    ids=str,
)
def test_partitioned_files_have_all_columns_in_order(
    warehouse: Warehouse, format_: str, partition_by: tuple[str, ...]
) -> None:
    name = "_".join(("parts", format_, *partition_by)).lower()
    warehouse.publish("acme", "shop", name, GOODS, GOODS_COLUMNS, format_, partition_by)
    found = warehouse.queries.run(warehouse.caller("acme"), Query(f"SELECT * FROM shop.{name} ORDER BY id")).page
    assert found.rows == ROWS
    assert [column.name for column in found.columns] == GOODS.column_names
    filtered = warehouse.rows(f"SELECT id FROM shop.{name} WHERE code = 'a/b c%=' AND day < DATE '2024-03-01'")
    assert [row["Id"] for row in filtered] == [1]


@pytest.mark.parametrize("format_", FORMATS)
def test_tables_of_earlier_versions_are_dropped(
    on_trino: Warehouse, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, schema = TrinoClient(on_trino.settings.trino), name_user(on_trino.ids["acme"])
    name = f"dropped_{format_}"
    dataset = on_trino.publish("acme", "shop", name, GOODS, GOODS_COLUMNS, format_)
    assert on_trino.rows(f"SELECT count(*) AS n FROM shop.{name}") == [{"n": 4}]
    on_trino.publish("acme", "shop", name, GOODS, GOODS_COLUMNS, format_)
    pattern = f"'t\\_{dataset.replace('-', '')}%' ESCAPE '\\'"
    before = {name for (name,) in client.fetch(f"SHOW TABLES FROM hive.{schema} LIKE {pattern}")}
    monkeypatch.setattr("core.data.sql.trino.tables.UNUSED_SECONDS", -1)
    assert on_trino.rows(f"SELECT count(*) AS n FROM shop.{name}")[0]["n"] >= 4
    assert before
    assert before.isdisjoint(name for (name,) in client.fetch(f"SHOW TABLES FROM hive.{schema} LIKE {pattern}"))
    if format_ == "iceberg" and on_trino.settings.storage.address:
        assert len(client.fetch(f"SHOW TABLES FROM iceberg.{schema} LIKE {pattern}")) == 1


@pytest.mark.parametrize("format_", FORMATS)
def test_a_table_that_two_processes_need_at_once_is_created_once(on_trino: Warehouse, format_: str) -> None:
    partition_by = ["code"] if format_ == "parquet" else []
    dataset = on_trino.publish("acme", "shop", f"busy_{format_}", GOODS, GOODS_COLUMNS, format_, partition_by)
    table, owner = load_table(on_trino, dataset), on_trino.ids["acme"]
    engines = [open_sql_engine(on_trino.settings, open_storage(on_trino.settings.storage)) for _ in range(2)]

    def count(number: int) -> object:
        engine = engines[number % 2]
        relation = engine.register(owner, table)
        sql = f"SELECT count(*) AS n FROM {'.'.join(relation.identifiers)}"
        return engine.run(EngineQuery(new_id(), owner, sql, (relation,))).rows

    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(count, range(8))) == [[{"n": 4}]] * 8
    for engine in engines:
        engine.close()


def test_a_table_is_read_while_other_processes_register_it(on_trino: Warehouse) -> None:
    dataset = on_trino.publish("acme", "shop", "registered", GOODS, GOODS_COLUMNS, "parquet")
    table, owner = load_table(on_trino, dataset), on_trino.ids["acme"]

    def open_engine() -> TrinoEngine:
        engine = open_sql_engine(on_trino.settings, open_storage(on_trino.settings.storage))
        assert isinstance(engine, TrinoEngine)
        return engine

    def register_again(engine: TrinoEngine) -> None:
        for _ in range(20):
            engine.register(owner, table)
            engine._tables.forget(name_user(owner))

    with (
        closing(open_engine()) as reading,
        closing(open_engine()) as first,
        closing(open_engine()) as second,
        ThreadPoolExecutor(2) as others,
    ):
        relation = reading.register(owner, table)
        registered = [others.submit(register_again, engine) for engine in (first, second)]
        sql = f"SELECT count(*) AS n FROM {'.'.join(relation.identifiers)}"
        while not all(each.done() for each in registered):
            assert reading.run(EngineQuery(new_id(), owner, sql, (relation,))).rows == [{"n": 4}]
        for each in registered:
            each.result()


LETTERS = pa.table({"id": [1, 2, 3, 4], "code": ["ü☃", None, "null", "Null"]})
LETTER_COLUMNS = [{"name": "id", "type": "bigint"}, {"name": "code", "type": "string"}]


def test_names_of_folders_may_have_letters_as_spark_writes_them(warehouse: Warehouse) -> None:
    warehouse.publish("acme", "shop", "letters", LETTERS, LETTER_COLUMNS, partition_by=["code"])
    assert warehouse.rows("SELECT * FROM shop.letters ORDER BY id") == LETTERS.to_pylist()


def test_encoded_letters_in_names_of_folders_are_refused(on_trino: Warehouse) -> None:
    warehouse = on_trino
    dataset = warehouse.publish("acme", "shop", "encoded", LETTERS, LETTER_COLUMNS, partition_by=["code"])
    table = load_table(warehouse, dataset)
    file = f"{table.locations[0]}/code=%C3%BC/part-0.parquet"
    encoded = replace(table, files=(file,))
    storage = open_storage(warehouse.settings.storage)
    storage.put(file, io.BytesIO(b"not read"))
    engine = open_sql_engine(warehouse.settings, storage)
    with pytest.raises(BadInput) as error:
        engine.register(warehouse.ids["acme"], encoded)
    assert error.value.details[0].code == "unsupported-table"
    engine.close()


def test_only_files_of_the_version_are_read(on_trino: Warehouse) -> None:
    """Another Spark's folder may get more files later, and has folders of its own."""
    owner, storage = on_trino.ids["acme"], open_storage(on_trino.settings.storage)
    folder = f"{owner}/lake/goods"
    store_rows(on_trino.settings, folder, PRODUCTS.slice(0, 1))
    store_rows(on_trino.settings, f"{folder}/b", PRODUCTS.slice(1, 1))
    columns = (Column("id", "bigint"), Column("name", "string"))
    files = tuple(f"{folder}/{name}part-00000.snappy.parquet" for name in ("", "b/"))
    table = Table(new_id(), "shop", "foreign", columns, "parquet", (folder,), None, 2, None, files)
    engine = open_sql_engine(on_trino.settings, storage)

    def read(table: Table) -> list[int]:
        relation = engine.register(owner, table)
        sql = f"SELECT id FROM {'.'.join(relation.identifiers)} ORDER BY id"
        return [row["id"] for row in engine.run(EngineQuery(new_id(), owner, sql, (relation,))).rows]

    assert read(table) == [1, 2]
    storage.put(f"{folder}/note.parquet", io.BytesIO(b"not Parquet"))
    store_rows(on_trino.settings, folder, PRODUCTS.slice(2, 1), name="part-1.parquet")
    assert read(table) == [1, 2]
    assert read(replace(table, files=files[:1])) == [1]
    far = tuple(f"{folder}/{number}/a.parquet" for number in range(101))
    for file in far:
        storage.put(file, io.BytesIO(b"not read"))
    many = replace(table, files=far)
    with pytest.raises(BadInput) as error:
        read(many)
    assert error.value.details[0].code == "unsupported-table"
    engine.close()


@pytest.mark.parametrize(
    "path", ["../../../{rival}/{file}", "{root}/{rival}/{file}", "%2E%2E/%2E%2E/%2E%2E/{rival}/{file}"]
)
def test_a_log_that_names_files_elsewhere_is_refused(warehouse: Warehouse, path: str) -> None:
    name, storage = f"log_{len(path)}", open_storage(warehouse.settings.storage)
    warehouse.publish("acme", "shop", name, PRODUCTS, PRODUCT_COLUMNS, "delta")
    rival, log = warehouse.ids["rival"], f"{table_key(warehouse.ids['acme'], f'shop_{name}', 'delta')}/_delta_log/"
    (commit,) = [file.key for file in storage.list(log.rstrip("/")) if file.key.endswith(".json")]
    (secret,) = [file.key for file in storage.list(rival) if file.key.endswith(".parquet")]
    named = path.format(rival=rival, root=storage.url_for(rival, "sql").removesuffix(f"/{rival}"),
                        file=secret.removeprefix(f"{rival}/"))  # fmt: skip
    with storage.open(commit) as content:
        text = re.sub(r'("add":{"path":")[^"]+', rf"\g<1>{named}", content.read().decode())
    assert named in text
    storage.put(commit, io.BytesIO(text.encode()))
    with pytest.raises(Unavailable) as error:
        warehouse.rows(f"SELECT * FROM shop.{name}")
    assert error.value.details[0].code == "foreign-files"


def test_rows_are_stored(warehouse: Warehouse) -> None:
    storage = open_storage(warehouse.settings.storage)
    engine = open_sql_engine(warehouse.settings, storage)

    def store(sql: str, key: str) -> StoredResult:
        query = warehouse.queries.prepare(warehouse.caller("acme"), Query(sql, limit=None), new_id())
        assert isinstance(query, EngineQuery)
        return engine.store(query, key, lambda _: None)

    key, failed = (query_key(warehouse.ids["acme"], new_id()) for _ in range(2))
    result = store("SELECT id, price, name AS n FROM shop.products ORDER BY id DESC", key)
    columns = (Column("id", "bigint"), Column("price", "double"), Column("n", "varchar"))
    assert (result.columns, result.row_count) == (columns, 3)
    with storage.open(key) as content:
        rows = pq.read_table(io.BytesIO(content.read())).to_pydict()
    assert rows == {"id": [3, 2, 1], "price": [None, 4.0, 19.5], "n": [None, "mug", "kettle"]}
    with pytest.raises(BadInput):
        store("SELECT cast('x' AS integer) AS n", failed)
    assert [file.key for file in storage.list(key.rpartition("/")[0])] == [key]
    engine.close()
