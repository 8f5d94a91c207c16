"""`load` and `save` with a data source whose jar a setting names: rows go to a real Kafka and come back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.language.formats import VARIABLE
from pipelines.spark.jars import get_cache_folder
from tests.bin.test_scripts import run
from tests.support.kafka import CONNECTOR, serve_kafka
from tests.support.service import Service

WRITE = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/goods.csv"]}
  - stage: sql_query
    args: ["SELECT name AS key, to_json(struct(name, price)) AS value FROM rows"]
  - stage: save
    args: [{format: kafka, options: {kafka.bootstrap.servers: "${KAFKA_SERVERS}", topic: goods}}]
"""
READ = """
pipeline:
  - stage: load
    args:
      - format: kafka
        options: {kafka.bootstrap.servers: "${KAFKA_SERVERS}", subscribe: goods, kafka.client.id: "${KAFKA_PASSWORD}"}
  - {stage: sql_query, args: ["SELECT CAST(value AS STRING) AS value FROM rows"]}
"""
SECRET = "canary-of-kafka"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {"SPINDLE_JARS": str(get_cache_folder()), VARIABLE: f"kafka={CONNECTOR}"}


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patched, serve_kafka(patched) as address:
        yield address


@pytest.fixture(scope="module")
def written(broker: str, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a broker with two rows, which a pipeline has written."""
    folder = tmp_path_factory.mktemp("kafka")
    (folder / "goods.csv").write_text("name,price\nlamp,9\ncup,2\n")
    (folder / "write.yaml").write_text(WRITE)
    given = ("-p", f"KAFKA_SERVERS={broker}", "-p", f"FOLDER={folder}")
    done = run("bin/spindle", "run", str(folder / "write.yaml"), *given, **environment)
    assert done.returncode == 0, done.stderr
    return broker


def test_rows_are_read_from_kafka_behind_the_guard(written: str, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "read.yaml").write_text(READ)
    given = ("-p", f"KAFKA_SERVERS={written}", "-p", f"KAFKA_PASSWORD={SECRET}")
    refused = run("bin/spindle", "run", str(tmp_path / "read.yaml"), *given, "--guard", **environment)
    assert refused.returncode == 1
    assert "loopback" in refused.stderr
    rows = tmp_path / "rows.jsonl"
    read = run("bin/spindle", "run", str(tmp_path / "read.yaml"), *given, "-o", str(rows), **environment)
    assert read.returncode == 0, read.stderr
    found = [json.loads(json.loads(line)["value"]) for line in rows.read_text().splitlines()]
    assert sorted(found, key=lambda row: row["name"]) == [
        {"name": "cup", "price": "2"},
        {"name": "lamp", "price": "9"},
    ]


def test_a_job_reads_kafka_with_a_credential_that_no_log_shows(
    written: str, environment: dict[str, str], tmp_path: Path
) -> None:
    service = Service(tmp_path / "data", environment).start()
    try:
        keys = {"provider": "kafka", "accessKeyId": "reader", "secretAccessKey": SECRET, "endpoint": written}
        service.post("/cloud-credentials", keys)
        job = service.make_job(READ)
        status = service.wait(job, service.execute(job), seconds=240)
        assert status["status"] == "COMPLETED", status
        (dataset,) = service.get(f"/datasets?projectId={job.project_id}")
        assert dataset["rowCount"] == 2
        refused = service.make_job(READ.replace("${KAFKA_SERVERS}", "10.0.0.1:9092"))
        status = service.wait(refused, service.execute(refused), seconds=240)
        assert (status["status"], "private address" in status["errorMessage"]) == ("FAILED", True)
    finally:
        assert service.stop() == 0
    files = [path for path in (*service.data.rglob("*"), service.log) if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
