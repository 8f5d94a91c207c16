"""Histories and the tables that they are read from, in real executions: compared, restored, and read by a retry."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.libraries import needs_libraries
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Json, Service, wait_until
from tests.support.site import Site

pytestmark = pytest.mark.long

SPARK_SECONDS = 240
PRICES = """\
pipeline:
  - {{stage: load_csv, args: ["{base}/prices.csv"]}}
output: {{format: {format}, mode: {mode}{keys}}}
"""
READER = """\
spindle: {{timeout: 180}}
pipeline:
  - {{stage: sql_query, args: ["SELECT sku, '{base}/later' AS page FROM t", {{tables: {{t: {table}}}}}]}}
  - {{stage: wget, args: [$page]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}]}}
"""


@needs_libraries
def test_a_history_is_compared_restored_and_continued(service: Service, web: Site) -> None:
    job = make_prices(service, web, "iceberg", "history", ", keys: [sku]")
    for prices in ({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}):
        publish(service, web, job, prices)
    dataset = service.get(job.path)["outputDatasetId"]
    found = service.get(f"/datasets/{dataset}/versions/1/diff/2")
    assert found["counts"] == {"added": 2, "removed": 0, "changed": 1}, "two new states, and the end of one"
    assert found["keys"] == ["sku", "valid_from"]
    restored = service.post(f"/datasets/{dataset}/versions/1/restore", {})
    assert (restored["version"], restored["restoredFrom"]) == (3, 1)
    assert not any(service.get(f"/datasets/{dataset}/versions/1/diff/3")["counts"].values())
    publish(service, web, job, {"a": 1, "b": 5})
    rows = query(service, dataset, "SELECT sku, price, is_current FROM dataset ORDER BY sku, valid_from")
    assert [tuple(row.values()) for row in rows] == [("a", "1", True), ("b", "2", False), ("b", "5", True)]
    publish(service, web, job, {"a": 1, "b": 5})
    assert service.get(f"/datasets/{dataset}")["version"] == 4, "nothing has changed"


def test_a_retry_reads_the_version_of_its_acceptance(service: Service, web: Site) -> None:
    prices = make_prices(service, web, "parquet", "overwrite", "")
    publish(service, web, prices, {"a": 1})
    table = service.get(f"/datasets/{service.get(prices.path)['outputDatasetId']}")
    name = f"{table['schema']}.{table['tableName']}"
    job = service.make_job(READER.format(base=web.url, table=name))
    with service.client() as client:
        assert client.put(job.path, json={"maxRetries": 1, "retryBackoffSeconds": 1}).is_success
    web.hold({"/later"})
    execution = service.execute(job)
    wait_until(lambda: web.requests["/later"], SPARK_SECONDS)
    publish(service, web, prices, {"b": 2, "c": 3})
    (pidfile,) = (service.data / "drivers").glob(f"*.{execution}.1")
    os.kill(int(pidfile.read_text()), signal.SIGKILL)
    wait_until(
        lambda: len(service.get(f"{job.path}/executions/{execution}/attempts")) == 2,
        PATIENCE_SECONDS,
        every=POLL_SECONDS,
    )
    web.hold(())
    assert service.wait(job, execution, seconds=SPARK_SECONDS)["status"] == "COMPLETED"
    assert [each["version"] for each in service.get(f"{job.path}/executions/{execution}")["inputVersions"]] == [1]
    dataset = service.get(job.path)["outputDatasetId"]
    assert query(service, dataset, "SELECT sku, name FROM dataset") == [{"sku": "a", "name": "Later"}]


def make_prices(service: Service, web: Site, format_: str, mode: str, keys: str) -> Job:
    web.serve({})
    return service.make_job(PRICES.format(base=web.url, format=format_, mode=mode, keys=keys))


def publish(service: Service, web: Site, job: Job, prices: dict[str, int]) -> None:
    lines = "".join(f"{sku},{price}\n" for sku, price in prices.items())
    web.pages |= {"/prices.csv": f"sku,price\n{lines}", "/later": "<h1>Later</h1>"}
    ended = service.wait(job, service.execute(job), seconds=SPARK_SECONDS)
    assert ended["status"] == "COMPLETED", ended


def query(service: Service, dataset: str, sql: str) -> list[Json]:
    return service.post("/datasets/query", {"sql": sql, "datasetId": dataset})["results"]
