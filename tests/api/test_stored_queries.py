"""Queries in the background: states, pages, files, cancel, limits, lost processes and expiry."""

from __future__ import annotations

import csv
import io
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import update

import spindle
from core.data.sql.service import open_sql_engine
from core.data.sql.stored.runner import QueryRunner
from core.infra.database import open_database
from core.infra.storage import open_storage
from core.infra.storage.protocol import query_key
from core.tables import StoredQuery, now
from tests.support.api import ROWS, Api, Job, read_code
from tests.support.service import PATIENCE_SECONDS, wait_until
from tests.support.trino import ENDLESS

NUMBERS = "SELECT x, cast(x AS decimal(10, 2)) AS amount FROM UNNEST(sequence(1, 2500)) AS t(x) ORDER BY x DESC"
QUERIES = "/datasets/queries"


def submit(api: Api, sql: str, path: str = "/datasets/query", **body: Any) -> str:
    answer = api.call("POST", f"{path}?async=true", json={"sql": sql, **body})
    assert answer.status_code == 202, answer.text
    assert answer.json()["status"] in ("PENDING", "RUNNING")
    return answer.json()["queryId"]


def wait(api: Api, query: str, *states: str) -> Any:
    wait_until(lambda: api.get(f"{QUERIES}/{query}")["status"] in states, PATIENCE_SECONDS)
    return api.get(f"{QUERIES}/{query}")


def test_rows_come_in_pages_and_as_files(acme: Api) -> None:
    query = submit(acme, NUMBERS)
    done = wait(acme, query, "COMPLETED")
    assert (done["rowCount"], done["progress"], done["error"]) == (2500, 1.0, None)
    assert done["columns"] == [{"name": "x", "type": "bigint"}, {"name": "amount", "type": "decimal(10, 2)"}]
    assert done["expiresAt"] > done["completedAt"] >= done["startedAt"] >= done["createdAt"]
    assert any(each["queryId"] == query for each in acme.get(QUERIES))
    page = acme.get(f"{QUERIES}/{query}/results", page=2)
    assert (page["page"], page["pages"], page["rowCount"], len(page["rows"])) == (2, 3, 2500, 500)
    assert page["rows"][0] == {"x": 500, "amount": 500}
    assert page["columns"] == done["columns"]
    exact = acme.get(f"{QUERIES}/{query}/results", limit=1, bigNumbers="string")
    assert exact["rows"] == [{"x": "2500", "amount": "2500.00"}]
    files = {name: acme.call("GET", f"{QUERIES}/{query}/results?format={name}") for name in ("csv", "jsonl", "parquet")}
    assert [row["x"] for row in csv.DictReader(io.StringIO(files["csv"].text))][:2] == ["2500", "2499"]
    assert json.loads(files["jsonl"].text.splitlines()[0])["x"] == 2500
    assert pq.read_table(io.BytesIO(files["parquet"].content)).column("x").to_pylist() == list(range(2500, 0, -1))


def test_a_notebook_reads_the_rows_of_a_query(acme: Api) -> None:
    address = {"url": str(acme.client.base_url), "key": acme.key}
    rows = spindle.read(sql=NUMBERS, **address)
    assert rows.column("x").to_pylist() == list(range(2500, 0, -1))
    with pytest.raises(spindle.DatasetError, match="missing"):
        spindle.read(sql="SELECT * FROM missing", **address)
    with pytest.raises(spindle.DatasetError):
        spindle.read(sql="SELECT cast('x' AS integer)", **address)


def test_a_query_may_be_bound_to_a_dataset_or_a_task(job: Job) -> None:
    api = job.api
    dataset = job.complete(job.execute(), ROWS)
    found = [
        submit(api, "SELECT title FROM output ORDER BY title", datasetId=dataset),
        submit(api, "SELECT title FROM output ORDER BY title", f"/projects/{job.project_id}/jobs/{job.id}"
               f"/datasets/{dataset}/query"),
    ]  # fmt: skip
    for query in found:
        wait(api, query, "COMPLETED")
        assert api.get(f"{QUERIES}/{query}/results")["rows"] == [{"title": "kettle"}, {"title": "mug"}]


@pytest.mark.parametrize(
    ("sql", "code"),
    [("SELECT 1 FROM missing", "unknown-table"), ("DROP TABLE x", "read-only"), ("SHOW TABLES", "query-refused")],
)
def test_a_query_that_cannot_run_is_refused_at_once(acme: Api, sql: str, code: str) -> None:
    answer = acme.call("POST", "/datasets/query?async=true", json={"sql": sql})
    assert read_code(answer) == (400, code)


def test_a_repeated_request_with_a_key_runs_one_query(acme: Api, rival: Api) -> None:
    def send(api: Api, sql: str, query: str = "?async=true") -> Any:
        body, headers = {"sql": sql}, {"Idempotency-Key": "nightly"}
        return api.call("POST", f"/datasets/query{query}", json=body, headers=headers)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: send(acme, NUMBERS), range(8)))
    assert {answer.status_code for answer in answers} == {202}
    (query,) = {answer.json()["queryId"] for answer in answers}
    wait(acme, query, "COMPLETED")
    assert send(acme, NUMBERS).json()["status"] == "COMPLETED"
    assert read_code(send(acme, "SELECT 1")) == (409, "idempotency-key-reused")
    assert send(acme, "SELECT 1", "").json() == {"results": [{"_col0": 1}]}
    assert send(rival, NUMBERS).json()["queryId"] != query
    acme.call("DELETE", f"{QUERIES}/{query}")
    assert read_code(send(acme, NUMBERS)) == (409, "query-lost")


def test_explain_and_an_empty_result(acme: Api) -> None:
    plan, nothing = submit(acme, "EXPLAIN SELECT 1 AS one"), submit(acme, "SELECT 1 AS one WHERE false")
    wait(acme, plan, "COMPLETED")
    assert acme.get(f"{QUERIES}/{plan}/results")["rows"][0].keys() == {"Query Plan"}
    assert wait(acme, nothing, "COMPLETED")["rowCount"] == 0
    assert acme.get(f"{QUERIES}/{nothing}/results")["rows"] == []


def test_a_failed_query_has_its_reason(acme: Api) -> None:
    query = submit(acme, "SELECT cast('x' AS integer)")
    failed = wait(acme, query, "FAILED")
    assert "x" in failed["error"]
    answer = acme.call("GET", f"{QUERIES}/{query}/results")
    assert read_code(answer) == (409, failed["errorCode"])


def test_a_running_query_is_cancelled_and_does_not_hold_others_up(acme: Api, rival: Api) -> None:
    queries = [submit(acme, ENDLESS) for _ in range(3)]
    wait(acme, queries[0], "RUNNING")
    assert acme.post("/datasets/query", {"sql": "SELECT 1 AS one"}) == {"results": [{"one": 1}]}
    for query in queries:
        assert read_code(acme.call("GET", f"{QUERIES}/{query}/results")) == (409, "query-unfinished")
    assert rival.call("DELETE", f"{QUERIES}/{queries[0]}").status_code == 404
    for query in queries:
        assert acme.call("DELETE", f"{QUERIES}/{query}").json()["status"] == "CANCELLED"
    done = submit(rival, "SELECT 1 AS one")
    wait(rival, done, "COMPLETED")
    assert read_code(acme.call("GET", f"{QUERIES}/{queries[0]}/results")) == (409, "query-cancelled")
    assert acme.call("DELETE", f"{QUERIES}/{queries[0]}").status_code == 200
    assert acme.call("GET", f"{QUERIES}/{queries[0]}").status_code == 404


def test_an_organization_has_a_limit_of_unfinished_queries(rival: Api) -> None:
    queries: list[str] = []
    while (answer := rival.call("POST", "/datasets/query?async=true", json={"sql": ENDLESS})).status_code == 202:
        queries.append(answer.json()["queryId"])
        assert len(queries) < 20
    assert read_code(answer) == (429, "concurrency-limit")
    for query in queries:
        rival.call("DELETE", f"{QUERIES}/{query}")


def test_a_lost_query_fails_and_an_expired_one_is_deleted(acme: Api) -> None:
    expired = submit(acme, NUMBERS)
    wait(acme, expired, "COMPLETED")
    database, storage = open_database(acme.settings), open_storage(acme.settings.storage)
    key, past = query_key(acme.organization_id, expired), now() - timedelta(hours=2)
    assert key in [file.key for file in storage.list(key.rpartition("/")[0])]
    engine = open_sql_engine(acme.settings, storage)
    try:
        with database.write() as session:
            lost = StoredQuery(organization_id=acme.organization_id, sql="SELECT 1", state="RUNNING", heartbeat_at=past)
            session.add(lost)
            session.execute(update(StoredQuery).where(StoredQuery.id == expired).values(expires_at=past))
            session.flush()
            lost_id = lost.id
        QueryRunner(acme.settings, database, storage, engine).sweep()
    finally:
        engine.close()
        database.close()
    assert acme.call("GET", f"{QUERIES}/{expired}").status_code == 404
    assert key not in [file.key for file in storage.list(key.rpartition("/")[0])]
    found = acme.get(f"{QUERIES}/{lost_id}")
    assert (found["status"], found["errorCode"]) == ("FAILED", "query-lost")
