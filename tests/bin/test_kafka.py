"""`load` and `save` with a data source whose jar a setting names: rows go to a real Kafka and come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.language.data_sources import VARIABLE
from pipelines.spark.jars import get_cache_folder
from tests.bin.test_scripts import run
from tests.support.kafka import CONNECTOR, serve_kafka

WRITE = """
pipeline:
  - {stage: load_csv, args: ["${FOLDER}/goods.csv"]}
  - stage: sql_query
    args: ["SELECT name AS key, to_json(struct(name, price)) AS value FROM rows"]
  - stage: save
    args: [{format: kafka, options: {kafka.bootstrap.servers: "${BROKER}", topic: goods}}]
"""
READ = """
pipeline:
  - stage: load
    args: [{format: kafka, options: {kafka.bootstrap.servers: "${BROKER}", subscribe: goods}}]
  - {stage: sql_query, args: ["SELECT CAST(value AS STRING) AS value FROM rows"]}
"""


@pytest.mark.long
def test_rows_are_written_to_kafka_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINDLE_JARS", str(get_cache_folder()))
    monkeypatch.setenv(VARIABLE, f"kafka={CONNECTOR}")
    (tmp_path / "goods.csv").write_text("name,price\nlamp,9\ncup,2\n")
    (tmp_path / "write.yaml").write_text(WRITE)
    (tmp_path / "read.yaml").write_text(READ)
    with serve_kafka(monkeypatch) as broker:
        given = ("-p", f"BROKER={broker}")
        refused = run("bin/spindle", "run", str(tmp_path / "read.yaml"), *given, "--guard")
        assert refused.returncode == 1
        assert "loopback" in refused.stderr
        wrote = run("bin/spindle", "run", str(tmp_path / "write.yaml"), *given, "-p", f"FOLDER={tmp_path}")
        assert wrote.returncode == 0, wrote.stderr
        rows = tmp_path / "rows.jsonl"
        read = run("bin/spindle", "run", str(tmp_path / "read.yaml"), *given, "-o", str(rows))
        assert read.returncode == 0, read.stderr
    found = [json.loads(json.loads(line)["value"]) for line in rows.read_text().splitlines()]
    assert sorted(found, key=lambda row: row["name"]) == [
        {"name": "cup", "price": "2"},
        {"name": "lamp", "price": "9"},
    ]
