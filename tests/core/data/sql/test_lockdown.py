"""The query process by itself: what holds even if the gate before it let something through."""

from __future__ import annotations

import os
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.data.sql.embedded.messages import QueryRequest
from core.data.sql.embedded.pool import Pool, Worker, WorkerDied
from pipelines.duckdb.file_types import FileTypes
from pipelines.duckdb.lockdown import Refused, check_statement, lock_down, open_database
from pipelines.duckdb.views import View
from tests.support.service import PATIENCE_SECONDS

ONE = QueryRequest("SELECT 1 AS x")


@pytest.fixture
def view(tmp_path: Path) -> View:
    file = tmp_path / "it's a file.parquet"
    pq.write_table(pa.table({"x": [1]}), file)
    (tmp_path / "other.txt").write_text("secret")
    return View("shop.products", [str(file)], [])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{folder}/other.txt')",
        "SELECT * FROM '{folder}/other.txt'",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "COPY (SELECT 1) TO '{folder}/it''s a file.parquet'",
        "ATTACH '{folder}/new.db'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET memory_limit = '100GB'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM os",
    ],
)
def test_the_locked_connection_itself_reads_and_writes_nothing_else(tmp_path: Path, view: View, sql: str):
    with open_database("256MB", str(tmp_path / "scratch")) as connection:
        lock_down(connection, [view], FileTypes())
        with pytest.raises(duckdb.Error):
            connection.execute(sql.replace("{folder}", str(tmp_path)))
        assert connection.execute('SELECT * FROM "shop.products"').fetchall() == [(1,)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it's a file.parquet", "other.txt"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1; SELECT 2",
        "ATTACH ':memory:' AS x",
        "CREATE SECRET x (TYPE s3)",
        "DROP VIEW \"shop.products\"",
        "FROM duckdb_views()",
        "SELECT * FROM duckdb_views",
        "SELECT * FROM pg_catalog.pg_class",
        "SELECT * FROM main.\"shop.products\"",
        "SELECT * FROM memory.main.\"shop.products\"",
        "DESCRIBE \"shop.products\"",
        "FROM (SHOW TABLES)",
        "SUMMARIZE \"shop.products\"",
        "SELECT getenv('HOME')",
        "SELECT system.main.getenv('HOME')",
        "SELECT x, (SELECT current_setting('memory_limit')) FROM \"shop.products\"",
        "SELECT sum(getenv('HOME')::int) OVER () FROM \"shop.products\"",
        "SELECT list_transform([1], lambda x : getenv('HOME'))",
        "WITH a AS (FROM b), b AS (SELECT 1) FROM a",
        "WITH a AS (FROM a) FROM a",
        "SELECT * FROM \"shop.products\" ORDER BY getenv('HOME')",
        "SELECT * FROM \"shop.products\" LIMIT length(getenv('HOME'))",
        "SELECT $1",
    ],
)  # fmt: skip
def test_duckdbs_parser_refuses_anything_not_on_the_lists(view: View, sql: str):
    with pytest.raises(Refused):
        check_statement(sql, [view])


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT x FROM \"shop.products\"), b AS (FROM a) SELECT count(*), upper('a') || 'b' FROM b, a",
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5) SELECT * FROM c",
        'SELECT sum(x) OVER (PARTITION BY x ORDER BY x) FROM "shop.products" WHERE x IN (1, 2) AND x IS NOT NULL',
        "SELECT CASE WHEN true THEN [1, 2][1] END, {'a': 1}, unnest([1]), list_transform([1], lambda x : x + 1)",
        "SELECT * FROM (VALUES (1)) t(a) CROSS JOIN unnest([1, 2]) u(b)",
    ],
)
def test_duckdbs_own_parser_passes_a_query(view: View, sql: str):
    check_statement(sql, [view])


def test_a_process_carries_no_secret_and_little_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SPINDLE_SECRET_KEY", "canary")
    worker = Worker(tmp_path)
    try:
        while not (environment := Path(f"/proc/{worker.process.pid}/environ").read_text()):
            time.sleep(0.01)  # the process has not become the worker's program yet
        assert "canary" not in environment
        assert {line.split("=")[0] for line in environment.split("\0") if line} == {
            "HOME", "LC_ALL", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH",
        }  # fmt: skip
    finally:
        worker.close()


@pytest.mark.long
def test_a_process_killed_under_a_query_is_replaced(pool: Pool):
    assert pool.run("an organization", "q", ONE, PATIENCE_SECONDS).body == b'[{"x":1}]'
    (worker,) = [worker for worker in pool.idle if worker.organization_id == "an organization"]
    os.kill(worker.process.pid, 9)
    worker.process.wait()
    assert pool.run("an organization", "q", ONE, PATIENCE_SECONDS).body == b'[{"x":1}]'


def test_a_dead_process_and_a_timeout_give_different_errors(tmp_path: Path):
    worker = Worker(tmp_path)
    try:
        os.kill(worker.process.pid, 9)
        with pytest.raises(WorkerDied):
            worker.run(ONE, PATIENCE_SECONDS)
    finally:
        worker.close()


@pytest.mark.long
def test_organizations_never_share_a_process(pool: Pool):
    for organization in ("one", "two", "one", "two"):
        pool.run(organization, "q", ONE, PATIENCE_SECONDS)
    served = [worker.organization_id for worker in pool.idle]
    assert served.count("one") == served.count("two") == 1


def test_a_process_ends_and_cleans_up_when_its_server_dies(tmp_path: Path):
    worker = Worker(tmp_path)
    assert worker.process.stdin
    worker.process.stdin.close()
    assert worker.process.wait(PATIENCE_SECONDS) == 0
    assert list(tmp_path.iterdir()) == []
    worker.close()
