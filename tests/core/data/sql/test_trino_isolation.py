"""Trino's own access rules: an organization's user, with Trino's own client, reaches nothing of others."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from core.data.sql.embedded.pool import Pool
from core.data.sql.service import Query
from core.data.sql.trino.access import name_user
from core.data.sql.trino.client import TrinoClient
from core.errors import SpindleError, Unavailable
from core.infra.settings import Settings
from tests.support.trino import trino_settings
from tests.support.warehouse import Warehouse, make_query_service, make_warehouse

STATEMENTS = [
    "SELECT * FROM hive_ro.{rival}.{secrets}",
    "SELECT * FROM hive.{rival}.{secrets}",
    "SELECT * FROM hive.{acme}.{products}",
    "SELECT count(*) FROM hive_ro.{rival}.\"{secrets}$properties\"",
    "SELECT \"$path\" FROM hive_ro.{rival}.{secrets}",
    "SHOW CREATE TABLE hive_ro.{rival}.{secrets}",
    "SHOW STATS FOR hive_ro.{rival}.{secrets}",
    "DESCRIBE hive_ro.{rival}.{secrets}",
    "EXPLAIN ANALYZE SELECT * FROM hive_ro.{rival}.{secrets}",
    "CREATE TABLE hive.{acme}.x AS SELECT 1 AS x",
    "CREATE TABLE hive_ro.{acme}.x AS SELECT 1 AS x",
    "CREATE TABLE hive_ro.{acme}.x (x varchar) WITH (external_location = 'local:///etc', format = 'TEXTFILE')",
    "CREATE TABLE hive.{acme}.x (x varchar) WITH (external_location = 'local:///etc', format = 'TEXTFILE')",
    "CREATE VIEW hive_ro.{acme}.x AS SELECT * FROM hive_ro.{rival}.{secrets}",
    "CREATE VIEW hive.{acme}.x SECURITY DEFINER AS SELECT 1 AS x",
    "CREATE SCHEMA hive_ro.x",
    "CREATE SCHEMA hive.x",
    "DROP TABLE hive_ro.{acme}.{products}",
    "DROP TABLE hive.{rival}.{secrets}",
    "DROP SCHEMA hive_ro.{rival} CASCADE",
    "DELETE FROM hive_ro.{acme}.{products}",
    "INSERT INTO hive_ro.{acme}.{products} SELECT * FROM hive_ro.{acme}.{products}",
    "UPDATE hive_ro.{acme}.{products} SET id = 1",
    "ALTER TABLE hive_ro.{acme}.{products} RENAME TO x",
    "ALTER TABLE hive.{acme}.{products} EXECUTE optimize",
    "GRANT SELECT ON hive_ro.{rival}.{secrets} TO USER {acme}",
    "CALL hive.system.create_empty_partition('{acme}', '{products}', ARRAY['x'], ARRAY['y'])",
    "CALL hive_ro.system.flush_metadata_cache()",
    "CALL delta.system.register_table('{acme}', 'x', 'local:///etc')",
    "SET SESSION query_max_run_time = '10h'",
    "SET SESSION hive_ro.parquet_max_read_block_size = '1GB'",
    "CREATE FUNCTION memory.default.f(x bigint) RETURNS bigint RETURN x",
    "CREATE TABLE memory.default.x AS SELECT 1 AS x",
    "SELECT * FROM tpch.tiny.nation",
    "SELECT * FROM system.runtime.nodes",
    "SELECT * FROM system.metadata.catalogs WHERE catalog_name = 'hive'",
    "CALL system.runtime.kill_query('x', 'y')",
    "SELECT * FROM TABLE(system.builtin.query(query => 'SELECT 1'))",
    "SELECT * FROM delta_ro.{rival}.x",
    "SELECT * FROM iceberg_ro.{rival}.x",
    "CREATE CATALOG x USING memory",
    "CREATE ROLE x",
    "SET SESSION AUTHORIZATION 'admin'",
]  # fmt: skip


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Generator[Warehouse]:
    trino_settings()
    for warehouse in make_warehouse(tmp_path_factory.mktemp("isolation"), pool, "trino"):
        assert warehouse.rows("SELECT count(*) AS n FROM shop.products") == [{"n": 3}]
        assert warehouse.rows("SELECT count(*) AS n FROM secrets", "rival") == [{"n": 1}]
        yield warehouse


@pytest.fixture(scope="module")
def names(warehouse: Warehouse) -> dict[str, str]:
    """The names that statements use; an attacker is supposed to know all of them."""
    users = {name: name_user(owner) for name, owner in warehouse.ids.items()}
    client = TrinoClient(warehouse.settings.trino)
    tables = {name: client.fetch(f"SHOW TABLES FROM hive.{user}")[0][0] for name, user in users.items()}
    return {**users, "products": tables["acme"], "secrets": tables["rival"]}


@pytest.mark.long
def test_a_user_reaches_nothing_but_its_tables(warehouse: Warehouse, names: dict[str, str]) -> None:
    answers = {statement: _ask(warehouse, statement.format(**names), names["acme"]) for statement in STATEMENTS}
    assert {statement: answer for statement, answer in answers.items() if not _is_refusal(answer)} == {}


def _ask(warehouse: Warehouse, sql: str, user: str) -> object:
    try:
        return TrinoClient(warehouse.settings.trino).fetch(sql, user)
    except SpindleError as error:
        return error


def _is_refusal(answer: object) -> bool:
    refused = isinstance(answer, SpindleError) and answer.details[0].code != "trino-unavailable"
    return refused and "other organization" not in str(answer)


@pytest.mark.long
def test_a_user_sees_its_own_tables_and_no_other_names(warehouse: Warehouse, names: dict[str, str]) -> None:
    client = TrinoClient(warehouse.settings.trino)
    assert client.fetch(f"SELECT count(*) FROM hive_ro.{names['acme']}.{names['products']}", names["acme"]) == [[3]]
    schemas = client.fetch("SHOW SCHEMAS FROM hive_ro", names["acme"])
    assert names["rival"] not in {schema for (schema,) in schemas}
    found = client.fetch("SELECT table_schema FROM hive_ro.information_schema.tables", names["acme"])
    assert {schema for (schema,) in found} <= {names["acme"], "information_schema"}


def test_a_trino_that_is_down_is_unavailable(warehouse: Warehouse, pool: Pool) -> None:
    away = Settings(data=warehouse.settings.data, trino="http://127.0.0.1:9")
    service = make_query_service(away, warehouse.database, pool)
    with pytest.raises(Unavailable) as error:
        service.run(warehouse.caller("acme"), Query("SELECT 1 AS one"))
    assert error.value.details[0].code == "trino-unavailable"
