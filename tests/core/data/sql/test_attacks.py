"""What a query must never do: each attempt is refused with a sentence and tells nothing it should not."""

from __future__ import annotations

import pytest

from core.errors import BadInput
from tests.support.warehouse import Warehouse

FILES = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM READ_TEXT('/etc/passwd')",
    "SELECT * FROM read_parquet('{data}/storage/**/*.parquet')",
    "SELECT * FROM parquet_scan('{data}/storage/**/*.parquet')",
    "SELECT * FROM parquet_metadata('{data}/storage/**/*.parquet')",
    "SELECT * FROM parquet_schema('{data}/storage/**/*.parquet')",
    "SELECT * FROM parquet_kv_metadata('{data}/storage/**/*.parquet')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_json_auto('/etc/passwd')",
    "SELECT * FROM read_ndjson_objects('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM read_duckdb('{data}/spindle.db')",
    "SELECT * FROM sqlite_scan('{data}/spindle.db', 'api_keys')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM \"/etc/passwd\"",
    "SELECT * FROM '{data}/admin-key'",
    "SELECT * FROM \"{data}/storage/{rival}/executions/x/1/output/part-00000.snappy.parquet\"",
    "SELECT * FROM 's3://bucket/key.parquet'",
    "SELECT * FROM 'https://127.0.0.1/x.csv'",
    "SELECT * FROM read_parquet('s3://bucket/key.parquet')",
    "SELECT * FROM read_csv('http://169.254.169.254/latest/meta-data')",
    "SELECT * FROM TABLE(read_csv('/etc/passwd'))",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT * FROM notes, read_text('/etc/passwd')",
    "SELECT * FROM notes JOIN LATERAL read_text('/etc/passwd') ON true",
    "SELECT * FROM notes WHERE note IN (SELECT content FROM read_text('/etc/passwd'))",
    "WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x",
    "SELECT read_text('/etc/passwd')",
    "SELECT * FROM /**/ read_text /**/ ('/etc/passwd')",
    "SELECT * FROM \"read_text\"('/etc/passwd')",
    "SELECT * FROM main.read_text('/etc/passwd')",
    "SELECT * FROM system.main.read_text('/etc/passwd')",
    "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "SELECT * FROM query_table('/etc/passwd')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
]  # fmt: skip

STATEMENTS = [
    "ATTACH '{data}/spindle.db' AS meta (TYPE sqlite)",
    "ATTACH ':memory:' AS x",
    "DETACH x",
    "COPY (SELECT 1) TO '{data}/out.csv'",
    "COPY notes FROM '/etc/passwd'",
    "EXPORT DATABASE '{data}/x'",
    "IMPORT DATABASE '{data}/x'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "FORCE INSTALL httpfs",
    "PRAGMA database_list",
    "PRAGMA version",
    "SET enable_external_access = true",
    "SET GLOBAL lock_configuration = false",
    "SET SESSION query_max_run_time = '1h'",
    "RESET ALL",
    "USE memory",
    "CALL duckdb_settings()",
    "CREATE TABLE x AS SELECT 1",
    "CREATE TABLE x (i integer)",
    "CREATE OR REPLACE VIEW notes AS SELECT 1",
    "CREATE SECRET x (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE MACRO f(x) AS x + 1",
    "CREATE SCHEMA x",
    "DROP VIEW notes",
    "DROP TABLE notes",
    "DROP SECRET x",
    "ALTER TABLE notes RENAME TO x",
    "INSERT INTO notes VALUES ('x')",
    "INSERT INTO notes SELECT 1",
    "UPDATE notes SET note = 'x'",
    "DELETE FROM notes",
    "TRUNCATE TABLE notes",
    "MERGE INTO notes USING notes n ON true WHEN MATCHED THEN DELETE",
    "WITH x AS (DELETE FROM notes RETURNING *) SELECT * FROM x",
    "WITH x AS (INSERT INTO notes VALUES (1) RETURNING *) SELECT * FROM x",
    "SELECT 1 INTO x",
    "SELECT * FROM notes FOR UPDATE",
    "BEGIN",
    "COMMIT",
    "CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "DEALLOCATE p",
    "GRANT SELECT ON notes TO PUBLIC",
    "EXPLAIN ANALYZE SELECT 1",
    "EXPLAIN DELETE FROM notes",
    "EXPLAIN COPY (SELECT 1) TO '/tmp/x'",
    "EXPLAIN SHOW TABLES",
    "SHOW ALL TABLES",
    "SHOW SESSION",
    "SHOW CREATE TABLE notes",
    "SHOW TABLES; DROP TABLE notes",
    "DESCRIBE (SELECT * FROM read_text('/etc/passwd'))",
    "DESCRIBE '/etc/passwd'",
    "SUMMARIZE notes",
    "FROM notes",
    "TABLE notes",
    "PIVOT notes ON note",
    "SELECT * FROM (DESCRIBE notes)",
    "SELECT * FROM (SHOW TABLES)",
    "SELECT * FROM (PIVOT notes ON note USING count(*))",
    "SELECT 1; SELECT 2",
    "SELECT 1;; SELECT 2",
    "SELECT 1; -- x\nDROP TABLE notes",
    "SELECT 1 /* ; */ ; /* */ ATTACH ':memory:' AS x",
    "SELECT ';' ; INSTALL httpfs",
    "SELECT ?",
    "SELECT $1",
    "SELECT :name",
    "SELECT @@version",
    "; ",
    "--",
]  # fmt: skip

CATALOGS = [
    "SELECT * FROM duckdb_views()",
    "SELECT * FROM duckdb_tables()",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_functions()",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM duckdb_views",
    "SELECT * FROM duckdb_logs",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM pg_views",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM sqlite_schema",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_table_info('notes')",
    "SELECT * FROM pragma_storage_info('notes')",
    "SELECT * FROM information_schema.views",
    "SELECT * FROM spindle.information_schema.schemata",
    "SELECT * FROM other.information_schema.tables",
    "SELECT * FROM system.information_schema.tables",
    "SELECT * FROM memory.main.notes",
    "SELECT * FROM main.notes",
    "SELECT * FROM temp.notes",
    "WITH duckdb_views AS (SELECT * FROM duckdb_views) SELECT * FROM duckdb_views",
    "WITH a AS (SELECT * FROM duckdb_views), duckdb_views AS (SELECT 1 AS x) SELECT * FROM a",
    "SELECT * FROM (WITH sqlite_master AS (SELECT 1 AS x) SELECT * FROM sqlite_master) a, sqlite_master",
    "SELECT getenv('HOME')",
    "SELECT GetEnv('SPINDLE_SECRET_KEY')",
    "SELECT \"getenv\"('HOME')",
    "SELECT main.getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "SELECT current_database()",
    "SELECT current_schema()",
    "SELECT current_user",
    "SELECT current_catalog",
    "SELECT current_query()",
    "SELECT version()",
    "SELECT pg_get_viewdef(0)",
    "SELECT getvariable('x')",
    "SELECT nextval('x')",
    "SELECT json_serialize_plan('SELECT 1')",
    "SELECT write_log('x')",
    "SELECT txid_current()",
    "SELECT sleep_ms(10)",
    "SELECT pg_sleep(10)",
    "SELECT note.getenv() FROM notes",
    "SELECT list_transform(['HOME'], x -> getenv(x))",
    "SELECT filename FROM notes",
    "SELECT file_row_number FROM notes",
    "SELECT * FROM range(10)",
    "SELECT * FROM repeat('x', 10)",
    "SELECT * FROM summary((SELECT 1))",
    "SELECT * FROM test_all_types()",
    "SELECT * FROM python_map_function()",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM enable_logging('QueryLog')",
]  # fmt: skip

OTHERS = [
    "SELECT * FROM secrets",
    "SELECT * FROM vault.secrets",
    "SELECT * FROM spindle.vault.secrets",
    "SELECT * FROM SPINDLE.VAULT.SECRETS",
    "SELECT * FROM minio.vault.secrets",
    'SELECT * FROM "spindle"."vault"."secrets"',
    'SELECT * FROM "vault.secrets"',
    'SELECT * FROM "vault"."secrets"',
    'SELECT * FROM shop."../vault/secrets"',
    "SELECT * FROM rival.vault.secrets",
    "SELECT * FROM `vault`.`secrets`",
    "SELECT * FROM vault . secrets",
    "SELECT * FROM vault/**/./**/secrets",
    "SELECT * FROM vault.\u0073ecrets",
    "SELECT * FROM vault.\uff53ecrets",
    "SELECT * FROM vault.secrets\u200b",
    "SELECT * FROM \ufeffvault.secrets",
    'SELECT * FROM U&"vault"."secrets"',
    "SELECT vault.secrets.secret FROM notes",
    "SELECT (SELECT secret FROM vault.secrets)",
    "SELECT 1 FROM notes WHERE EXISTS (SELECT 1 FROM vault.secrets)",
    "WITH secrets AS (SELECT * FROM secrets) SELECT * FROM secrets",
    "WITH a AS (SELECT * FROM vault.secrets) SELECT * FROM a",
    "SELECT * FROM notes UNION ALL SELECT * FROM vault.secrets",
    "SELECT * FROM notes ORDER BY (SELECT max(secret) FROM vault.secrets)",
    "VALUES ((SELECT max(secret) FROM vault.secrets))",
    "DESCRIBE vault.secrets",
    "SHOW COLUMNS FROM vault.secrets",
    "EXPLAIN SELECT * FROM vault.secrets",
    "SELECT * FROM notes FOR VERSION AS OF 1",
    "SELECT * FROM \"shop.products\"",
    "SELECT * FROM notes\0",
]  # fmt: skip


def test_every_attack_is_refused_and_learns_nothing(warehouse: Warehouse):
    data, rival = str(warehouse.settings.data), warehouse.ids["rival"]
    secrets = ("the other organization's row", "root:", data, ".parquet", "Traceback", "CREATE VIEW")
    breaches: dict[str, object] = {}
    for sql in (*FILES, *STATEMENTS, *CATALOGS, *OTHERS):
        attack = sql.replace("{data}", data).replace("{rival}", rival)
        answer = warehouse.answer(attack)
        refused = isinstance(answer, BadInput) and answer.sentence.endswith(".")
        if not refused or any(secret in str(answer) and secret not in attack for secret in secrets):
            breaches[sql] = answer
    assert breaches == {}


def test_the_list_of_attacks_is_long():
    assert len({*FILES, *STATEMENTS, *CATALOGS, *OTHERS}) >= 200


def test_another_organizations_table_is_unknown(warehouse: Warehouse):
    sentences = set()
    for name in ("secrets", "unheard"):
        with pytest.raises(BadInput) as refusal:
            warehouse.rows(f"SELECT * FROM vault.{name}")
        sentences.add(refusal.value.sentence.replace(name, "…"))
    assert len(sentences) == 1
    assert warehouse.rows("SELECT * FROM secrets", organization="rival") == [{"secret": "the other organization's row"}]


def test_listings_hold_nothing_of_another_organization(warehouse: Warehouse):
    for sql in ("SHOW SCHEMAS", "SHOW TABLES", "SHOW TABLES FROM vault", "SHOW CATALOGS"):
        assert "vault" not in str(warehouse.rows(sql))
        assert "secrets" not in str(warehouse.rows(sql))
