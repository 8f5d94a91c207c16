from __future__ import annotations

import re

import pyarrow as pa
import pytest

from core.data.sql.embedded.pool import Pool
from core.data.sql.service import Query
from core.errors import BadInput, NotFound, TimedOut, TooLarge, Unavailable
from core.tables import DatasetVersion
from tests.support.trino import ENDLESS
from tests.support.warehouse import PRODUCT_COLUMNS, PRODUCTS, Warehouse, make_query_service

COUNTS = [
    ("SELECT count(*) AS n FROM spindle.shop.products", 3),
    ("SELECT count(*) AS n FROM minio.shop.products", 3),
    ('SELECT count(*) AS n FROM "MinIO"."Shop"."PRODUCTS"', 3),
    ("SELECT count(*) AS n FROM shop.products", 3),
    ("SELECT count(*) AS n FROM archive.products", 1),
    ("SELECT count(*) AS n FROM notes", 2),
    ('SELECT count(*) AS n FROM "default".notes', 2),
    ("SELECT count(*) AS n FROM shop.empty", 0),
    ("SELECT count(*) AS n FROM shop.products p JOIN archive.products a ON p.id = a.id", 1),
    ("SELECT count(shop.products.name) AS n FROM shop.products", 2),
    ("SELECT count(products.name) AS n FROM shop.products", 2),
    ("SELECT count(p.name) AS n FROM spindle.shop.products AS p", 2),
    ("WITH products AS (SELECT 1 AS id) SELECT count(*) AS n FROM products", 1),
    ("WITH p AS (SELECT * FROM shop.products), q AS (SELECT * FROM p WHERE id > 1) SELECT count(*) AS n FROM q", 2),
    ("WITH products AS (SELECT * FROM shop.products) SELECT count(*) AS n FROM products", 3),
    ("WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5) SELECT count(*) AS n FROM c", 5),
    ("SELECT (SELECT count(*) FROM notes) AS n", 2),
    ("SELECT count(*) AS n FROM (SELECT * FROM shop.products UNION ALL SELECT * FROM archive.products) AS both", 4),
    ("SELECT count(*) AS n FROM shop.products WHERE EXISTS (SELECT 1 FROM notes WHERE note = 'a')", 3),
    ("SELECT count(*) AS n FROM UNNEST(ARRAY[1, 2]) AS t(x)", 2),
    ("/* why */ SELECT count(*) AS n -- how many\nFROM notes;", 2),
    ("SELECT approx_distinct(id) AS n FROM shop.products", 3),
    ("SELECT count_if(price > 5) AS n FROM shop.products", 1),
]


NAMES = [  # a query of one row, and the names of its columns in Trino
    ("SELECT count(*) FROM shop.products", ["_col0"]),
    ("SELECT min(id), id AS a, max(id), 1 + 1, ARRAY[1] FROM shop.products GROUP BY id LIMIT 1",
     ["_col0", "a", "_col2", "_col3", "_col4"]),
    ("SELECT name, (price), p.id, upper(name) FROM shop.products p LIMIT 1", ["name", "price", "id", "_col3"]),
    ("SELECT *, upper(name) FROM shop.products LIMIT 1", ["id", "name", "price", "_col3"]),
    ("SELECT lower(name), p.*, upper(name), 1 FROM shop.products p LIMIT 1",
     ["_col0", "id", "name", "price", "_col4", "_col5"]),
    ("SELECT * FROM (SELECT max(id), min(id) FROM shop.products) AS t", ["_col0", "_col1"]),
    ("WITH t AS (SELECT max(id) FROM shop.products) SELECT * FROM t", ["_col0"]),
    ("SELECT count(*) FROM notes UNION ALL SELECT 2 LIMIT 1", ["_col0"]),
    ("SELECT (SELECT 1), (SELECT 2) AS two", ["_col0", "two"]),
    ("VALUES (1, 'a')", ["_col0", "_col1"]),
    ("VALUES 1", ["_col0"]),
    ("SELECT * FROM (VALUES (1, 2)) AS t (a, b)", ["a", "b"]),
    ("SELECT * FROM (VALUES (1, 2)) AS t", ["_col0", "_col1"]),
    ("SELECT * FROM (VALUES (1, 2))", ["_col0", "_col1"]),
    ("SELECT name, count(*) FROM shop.products WHERE id IN (VALUES 1) GROUP BY 1 ORDER BY count(*)", ["name", "_col1"]),
]  # fmt: skip


def test_columns_without_a_name_are_named_as_in_trino(warehouse: Warehouse):
    found = {sql: [list(row) for row in warehouse.rows(sql)] for sql, _ in NAMES}
    assert found == {sql: [names] for sql, names in NAMES}


def test_a_query_reads_the_organizations_tables_under_every_accepted_name(warehouse: Warehouse):
    assert {sql: warehouse.answer(sql) for sql, _ in COUNTS} == {sql: [{"n": n}] for sql, n in COUNTS}


def test_an_unqualified_name_is_looked_for_in_the_sessions_schema_first(warehouse: Warehouse):
    count = "SELECT count(*) AS n FROM products"
    assert warehouse.rows(count, catalog="minio", schema="archive") == [{"n": 1}]
    assert warehouse.rows(count, catalog="minio", schema="SHOP") == [{"n": 3}]
    with pytest.raises(BadInput, match=r"products is in several schemas \(archive, shop\)"):
        warehouse.rows(count, schema="nowhere")


def test_a_bound_query_reads_its_dataset_under_all_its_names(busy_warehouse: Warehouse):
    dataset = busy_warehouse.publish("acme", "shop", "bound", PRODUCTS.slice(0, 2), PRODUCT_COLUMNS)
    busy_warehouse.publish("acme", "archive", "bound", PRODUCTS, PRODUCT_COLUMNS)
    names = ("output", "output_table", "dataset", "Output", "bound")
    found = {name: busy_warehouse.answer(f"SELECT id FROM {name} ORDER BY id", dataset_id=dataset) for name in names}
    assert found == {name: [{"id": 1}, {"id": 2}] for name in names}


def test_another_organizations_dataset_is_as_unknown_as_no_dataset(busy_warehouse: Warehouse):
    rival = busy_warehouse.publish("rival", "vault", "more", PRODUCTS, PRODUCT_COLUMNS)
    sentences = []
    for dataset in (rival, "no-such-id"):
        with pytest.raises(NotFound) as error:
            busy_warehouse.rows("SELECT * FROM output", dataset_id=dataset)
        sentences.append(error.value.sentence)
    assert sentences[0] == sentences[1]


ROWS = [
    ("VALUES (1, 'a'), (2, 'b')", [{"_col0": 1, "_col1": "a"}, {"_col0": 2, "_col1": "b"}]),
    ("SELECT 1 AS a, 2 AS a, 3 AS a", [{"a": 1, "a_1": 2, "a_2": 3}]),
    ("(SELECT 1 AS x)", [{"x": 1}]),
    ("SELECT name FROM shop.products ORDER BY name", [{"name": "kettle"}, {"name": "mug"}, {"name": None}]),
    ("SELECT name FROM shop.products ORDER BY name DESC LIMIT 1", [{"name": "mug"}]),
    ("SELECT name FROM shop.products ORDER BY id FETCH FIRST 1 ROWS ONLY", [{"name": "kettle"}]),
    ("SHOW CATALOGS", [{"Catalog": "spindle"}]),
    ("SHOW SCHEMAS", [{"Schema": "archive"}, {"Schema": "default"}, {"Schema": "shop"}]),
    ("SHOW SCHEMAS FROM minio", [{"Schema": "archive"}, {"Schema": "default"}, {"Schema": "shop"}]),
    ("SHOW TABLES FROM shop", [{"Table": "empty"}, {"Table": "products"}]),
    ("SHOW TABLES IN spindle.shop;", [{"Table": "empty"}, {"Table": "products"}]),
    ("DESCRIBE notes", [{"Column": "note", "Type": "varchar", "Comment": ""}]),
    ("show columns from spindle.\"default\".notes", [{"Column": "note", "Type": "varchar", "Comment": ""}]),
]  # fmt: skip


def test_rows(warehouse: Warehouse):
    assert {sql: warehouse.answer(sql) for sql, _ in ROWS} == dict(ROWS)


def test_explain_shows_a_plan_without_a_path(warehouse: Warehouse):
    text = str(warehouse.rows("EXPLAIN SELECT * FROM shop.products WHERE id > 1"))
    assert "id" in text
    assert str(warehouse.settings.data) not in text
    assert ".parquet" not in text


def test_limit_and_offset_page_through_a_query(warehouse: Warehouse):
    sql = "SELECT x FROM UNNEST(sequence(1, 50)) AS t(x) ORDER BY x"
    assert [row["x"] for row in warehouse.rows(sql, limit=3, offset=10)] == [11, 12, 13]
    assert [row["x"] for row in warehouse.rows(sql + " LIMIT 12", limit=5, offset=10)] == [11, 12]
    assert warehouse.rows(sql, limit=2, offset=50) == warehouse.rows(sql, limit=0) == []
    assert len(warehouse.rows("SELECT x FROM UNNEST(sequence(1, 5000)) AS t(x)")) == 1000
    for wrong in ({"limit": 10_001}, {"limit": -1}, {"offset": -1}):
        with pytest.raises(BadInput, match="limit"):
            warehouse.rows(sql, **wrong)


def test_an_answer_above_32_mib_is_refused_and_the_worker_lives_on(warehouse: Warehouse):
    with pytest.raises(TooLarge, match="larger than 32 MiB"):
        warehouse.rows("SELECT lpad('x', 100000, 'x') AS x FROM UNNEST(sequence(1, 1000)) AS t(i)")
    assert warehouse.rows("SELECT 1 AS x") == [{"x": 1}]


def test_a_replaced_table_is_seen_by_the_next_query(busy_warehouse: Warehouse):
    brands = pa.table({"brand": ["x"]}), [{"name": "brand", "type": "string"}]
    busy_warehouse.publish("acme", "shop", "replaced", PRODUCTS, PRODUCT_COLUMNS)
    assert busy_warehouse.rows("SELECT count(*) AS n FROM shop.replaced") == [{"n": 3}]
    busy_warehouse.publish("acme", "shop", "replaced", PRODUCTS.slice(0, 2), PRODUCT_COLUMNS)
    assert busy_warehouse.rows("SELECT count(*) AS n FROM shop.replaced") == [{"n": 2}]
    busy_warehouse.publish("acme", "shop", "replaced", *brands)
    assert busy_warehouse.rows("SELECT * FROM shop.replaced") == [{"brand": "x"}]


def test_a_query_past_its_time_is_stopped_and_the_next_one_runs(busy_warehouse: Warehouse, pool: Pool):
    settings = busy_warehouse.settings.replace(sql_timeout_seconds=0.5)
    hasty = make_query_service(settings, busy_warehouse.database, pool)
    with pytest.raises(TimedOut) as error:
        hasty.run(busy_warehouse.caller("acme"), Query(ENDLESS))
    assert error.value.details[0].code == "query-timeout"
    assert busy_warehouse.rows("SELECT 1 AS x") == [{"x": 1}]


@pytest.mark.long
def test_a_query_that_eats_memory_is_stopped_and_the_next_one_runs(warehouse: Warehouse):
    with pytest.raises(BadInput, match="more memory"):
        warehouse.rows(
            "SELECT length(array_join(array_agg(array_join(transform(sequence(1, 10000), x -> lpad('x', 10000, 'x')),"
            " '')), '')) AS n FROM UNNEST(sequence(1, 200)) AS t(i)"
        )
    assert warehouse.rows("SELECT 1 AS x") == [{"x": 1}]


NEAR = [
    ("SELECT * FROM shop.product", r"There is no table shop\.product \(near matches: .*shop\.products"),
    ("SELECT nam FROM shop.products", "nam.* (not found|cannot be resolved)"),
    ("SELECT uper(name) FROM shop.products", r"There is no function UPER \(near matches: .*upper"),
    ("SELECT * FROM spindel.shop.products", r"There is no catalog spindel \(near matches: spindle\)"),
    ("SELECT FROM WHERE", "does not parse"),
    ("SELECT 'open", "quote or a comment is not closed"),
    ("SELECT 1 +", "does not parse near line 1, column"),
    ("", "The SQL is empty"),
    ("SELECT cast('x' AS integer)", "(convert|cast).* 'x' to INT"),
    ("SELECT " + "(" * 20_000 + "1" + ")" * 20_000, "cannot be read|nested"),
]  # fmt: skip


def test_an_invalid_query_is_an_error_with_a_reason(warehouse: Warehouse):
    answers = {sql: warehouse.answer(sql) for sql, _ in NEAR}
    assert {sql: answer for sql, answer in answers.items() if not isinstance(answer, BadInput)} == {}
    assert {sql: answers[sql] for sql, reason in NEAR if not re.search(reason, str(answers[sql]), re.IGNORECASE)} == {}


def test_tables_and_columns_list_the_organizations_own(warehouse: Warehouse):
    acme, rival = warehouse.caller("acme"), warehouse.caller("rival")
    with warehouse.database.read() as session:
        tables = {caller: warehouse.queries.list_tables(session, caller) for caller in (acme, rival)}
        in_shop = warehouse.queries.list_tables(session, acme, "minio", "shop")
        columns = warehouse.queries.list_columns(session, acme, "products", "minio", "shop")
    names = [table.full_name for table in tables[acme]]
    assert names == ["archive.products", "default.notes", "shop.empty", "shop.products"]
    assert [table.full_name for table in tables[rival]] == ["vault.secrets"]
    assert [table.full_name for table in in_shop] == ["shop.empty", "shop.products"]
    assert [(column.name, column.type) for column in columns] == [
        ("id", "bigint"),
        ("name", "varchar"),
        ("price", "double"),
    ]


def test_a_version_outside_the_organizations_storage_is_never_read(busy_warehouse: Warehouse):
    rival = busy_warehouse.publish("rival", "vault", "loot", PRODUCTS, PRODUCT_COLUMNS)
    with busy_warehouse.database.write() as session:
        stolen = session.query(DatasetVersion).filter_by(dataset_id=rival).one().locations
    mine = busy_warehouse.publish("acme", "shop", "mine", PRODUCTS, PRODUCT_COLUMNS)
    with busy_warehouse.database.write() as session:
        session.query(DatasetVersion).filter_by(dataset_id=mine).one().locations = stolen
    with pytest.raises(Unavailable) as error:
        busy_warehouse.rows("SELECT * FROM mine")
    assert error.value.details[0].code == "foreign-files"
