"""`load` and `save` with a data source whose jar a setting names: rows go to a real Kafka and come back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bin.test_scripts import run
from tests.support.customized import name_kafka
from tests.support.kafka import serve_kafka
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
def broker() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patched, serve_kafka(patched) as address:
        yield address


@pytest.fixture(scope="module")
def written(broker: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a broker with two rows, which a pipeline has written."""
    folder = tmp_path_factory.mktemp("kafka")
    (folder / "goods.csv").write_text("name,price\nlamp,9\ncup,2\n")
    (folder / "write.yaml").write_text(WRITE)
    given = ("-p", f"KAFKA_SERVERS={broker}", "-p", f"FOLDER={folder}")
    done = run("bin/spindle", "run", str(folder / "write.yaml"), *given, **name_kafka())
    assert done.returncode == 0, done.stderr
    return broker


def test_rows_are_read_from_kafka_behind_the_guard(written: str, tmp_path: Path) -> None:
    (tmp_path / "read.yaml").write_text(READ)
    given = ("-p", f"KAFKA_SERVERS={written}", "-p", f"KAFKA_PASSWORD={SECRET}")
    refused = run("bin/spindle", "run", str(tmp_path / "read.yaml"), *given, "--guard", **name_kafka())
    assert refused.returncode == 1
    assert "loopback" in refused.stderr
    rows = tmp_path / "rows.jsonl"
    read = run("bin/spindle", "run", str(tmp_path / "read.yaml"), *given, "-o", str(rows), **name_kafka())
    assert read.returncode == 0, read.stderr
    found = [json.loads(json.loads(line)["value"]) for line in rows.read_text().splitlines()]
    assert sorted(found, key=lambda row: row["name"]) == [
        {"name": "cup", "price": "2"},
        {"name": "lamp", "price": "9"},
    ]


@pytest.fixture
def credential(written: str, customized: Service) -> Iterator[None]:
    keys = {"provider": "kafka", "accessKeyId": "reader", "secretAccessKey": SECRET, "endpoint": written}
    made = customized.post("/cloud-credentials", keys)["id"]
    yield
    with customized.client() as client:
        client.delete(f"/cloud-credentials/id/{made}").raise_for_status()


@pytest.mark.usefixtures("credential")
def test_a_job_reads_kafka_with_a_credential_that_no_log_shows(customized: Service) -> None:
    job = customized.make_job(READ)
    status = customized.wait(job, customized.execute(job), seconds=240)
    assert status["status"] == "COMPLETED", status
    (dataset,) = customized.get(f"/datasets?projectId={job.project_id}")
    assert dataset["rowCount"] == 2
    refused = customized.make_job(READ.replace("${KAFKA_SERVERS}", "10.0.0.1:9092"))
    status = customized.wait(refused, customized.execute(refused), seconds=240)
    assert (status["status"], "private address" in status["errorMessage"]) == ("FAILED", True)
    assert SECRET.encode() not in b"".join(customized.read_files().values())
