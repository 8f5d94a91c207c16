"""Formats and modes in a whole service: what jobs write, and its queries, loads and downloads."""

from __future__ import annotations

import os
from itertools import chain
from typing import Any
from uuid import uuid4

import duckdb
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from cli.main import main
from tests.support.libraries import needs_libraries
from tests.support.service import Job, Service

TABLES = pytest.mark.parametrize("format_", ["delta", "iceberg"])
pytestmark = [needs_libraries, pytest.mark.long]


class Writer:
    """A job that writes the rows of a file; each run writes other rows."""

    def __init__(self, service: Service, stages: str = "", output: str = "") -> None:
        self.service = service
        self.file = service.files / f"{uuid4().hex}.csv"
        self.job = service.make_job(
            f"pipeline:\n  - {{stage: load_csv, args: [{{path: '{self.file}', inferSchema: true}}]}}\n{stages}{output}"
        )

    def run(self, *lines: str, state: str = "COMPLETED") -> dict[str, Any]:
        self.file.write_text("\n".join(lines))
        return finish(self.service, self.job, state)

    @property
    def dataset(self) -> dict[str, Any]:
        (dataset,) = self.service.get(f"/datasets?projectId={self.job.project_id}&name=rows")
        return dataset

    def query(self, sql: str = "SELECT * FROM dataset ORDER BY id", **more: Any) -> list[dict[str, Any]]:
        body = {"sql": sql, "datasetId": self.dataset["id"], **more}
        return self.service.post("/datasets/query", body)["results"]

    def download(self, format_: str, version: int | None = None) -> bytes:
        with self.service.client() as client:
            chosen = f"&version={version}" if version else ""
            answer = client.get(f"/datasets/{self.dataset['id']}/download?format={format_}{chosen}")
        assert answer.status_code == 200, answer.text
        return answer.content


def finish(service: Service, job: Job, state: str = "COMPLETED") -> dict[str, Any]:
    execution = service.execute(job)
    status = service.wait(job, execution, seconds=600)
    assert status["status"] == state, status
    return status


@pytest.mark.parametrize("format_", [pytest.param("delta", marks=pytest.mark.variant), "iceberg"])
def test_versions_of_a_table_are_snapshots(service: Service, format_: str) -> None:
    writer = Writer(service, output=f"output: {{format: {format_}, mode: merge, keys: [id]}}")
    writer.run("id,name", "1,a", "2,b")
    writer.run("id,name,price", "2,B,1.5", "3,c,2.5")
    merged = [
        {"id": 1, "name": "a", "price": None},
        {"id": 2, "name": "B", "price": 1.5},
        {"id": 3, "name": "c", "price": 2.5},
    ]
    assert writer.query() == merged
    assert writer.query(version=1) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    assert (writer.dataset["format"], writer.dataset["rowCount"], writer.dataset["indexed"]) == (format_, 3, True)
    versions = service.get(f"/datasets/{writer.dataset['id']}/versions")
    assert [(each["version"], each["rowCount"]) for each in versions] == [(2, 3), (1, 2)]
    assert sorted(writer.download("csv", 1).decode().split()) == ["1,a", "2,b", "id,name"]
    rows = duckdb.read_parquet(_write(service, writer.download("parquet"))).order("id").fetchall()
    assert rows == [(1, "a", None), (2, "B", 1.5), (3, "c", 2.5)]
    reader = service.make_job(
        f"pipeline: [{{stage: load_{format_}, args: ['{writer.dataset['storagePath']}']}}, {{stage: limit, args: [9]}}]"
    )
    finish(service, reader)
    (loaded,) = service.get(f"/datasets?projectId={reader.project_id}")
    assert loaded["rowCount"] == 3


def test_a_restored_version_is_continued_and_does_not_differ(service: Service) -> None:
    writer = Writer(service, output="output: {format: delta, mode: append}")
    writer.run("id,name", "1,a")
    writer.run("id,name,price", "2,b,1.5")
    versions = f"/datasets/{writer.dataset['id']}/versions"

    def diff(before: int, after: int) -> dict[str, int]:
        return service.get(f"{versions}/{before}/diff/{after}?keys=id")["counts"]

    nothing = {"added": 0, "removed": 0, "changed": 0}
    restored = service.post(f"{versions}/1/restore", {})
    assert (restored["version"], restored["restoredFrom"], restored["rowCount"]) == (3, 1, 1)
    assert writer.query() == [{"id": 1, "name": "a"}]
    assert (diff(1, 3), diff(3, 2)) == (nothing, nothing | {"added": 1})
    writer.run("id,name", "3,c")
    assert writer.query() == [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]
    assert (diff(1, 3), diff(3, 4)) == (nothing, nothing | {"added": 1})
    assert diff(2, 4) == nothing | {"added": 1, "removed": 1}
    assert [row["id"] for row in writer.query(version=2)] == [1, 2]
    service.post(f"{versions}/2/restore", {})
    writer.run("id,name", "4,d")
    assert [row["id"] for row in writer.query()] == [1, 2, 4]
    assert diff(2, 5) == nothing


@TABLES
def test_a_maintained_table_keeps_its_versions_and_is_continued(
    service: Service, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(service, output=f"output: {{format: {format_}, mode: append, partitionBy: [day]}}")
    lines = [(f"{n},2026-01-01", f"{n + 10},2026-01-02") for n in range(1, 5)]
    for line in lines[:3]:
        writer.run("id,day", *line)
    versions = [[row["id"] for row in writer.query(version=number)] for number in (1, 2, 3)]
    assert versions == [[1, 11], [1, 2, 11, 12], [1, 2, 3, 11, 12, 13]]
    done = service.post(f"/datasets/{writer.dataset['id']}/maintain", {"days": 0})
    assert (done["filesMerged"], done["filesWritten"], done["filesRemoved"] >= 2) == (6, 2, True)
    assert [[row["id"] for row in writer.query(version=number)] for number in (1, 2, 3)] == versions
    writer.run("id,day", *lines[3])
    assert [row["id"] for row in writer.query()] == [1, 2, 3, 4, 11, 12, 13, 14]
    assert sorted(writer.download("csv", 3).decode().split()[1:]) == sorted(chain.from_iterable(lines[:3]))
    monkeypatch.setenv("SPINDLE_URL", service.base_url)
    monkeypatch.setenv("SPINDLE_KEY", service.key)
    project = service.get(f"/projects/id/{writer.job.project_id}")["name"]
    job = service.get(writer.job.path)["name"]
    told = CliRunner().invoke(main, ["maintain", f"{project}/{job}", "--days", "0"]).output
    assert "4 small files were merged into 2." in told
    assert [row["id"] for row in writer.query()] == [1, 2, 3, 4, 11, 12, 13, 14]


def _write(service: Service, content: bytes) -> str:
    path = service.data.parent / "downloaded.parquet"
    path.write_bytes(content)
    return str(path)


def test_saves_publish_tables_and_files_beside_an_output(service: Service) -> None:
    stages = (
        "  - {stage: save_delta, args: [goods, append, {partitionBy: [name]}]}\n"
        "  - {stage: save_avro, args: [listed]}\n"
    )
    writer = Writer(service, stages, "output: {format: json}")
    for line in ("1,a", "2,b c"):
        writer.run("id,name", line)
    found = {each["name"]: each for each in service.get(f"/datasets?projectId={writer.job.project_id}")}
    assert {name: (each["format"], each["rowCount"], each["indexed"]) for name, each in found.items()} == {
        "rows": ("json", 1, False),
        "goods": ("delta", 2, True),
        "listed": ("avro", 1, False),
    }
    body = {"sql": "SELECT id, name FROM dataset WHERE name = 'b c'", "datasetId": found["goods"]["id"]}
    assert service.post("/datasets/query", body)["results"] == [{"id": 2, "name": "b c"}]
    if "SPINDLE_STORAGE" not in os.environ:  # a bucket, of `bin/test --s3`
        folders = [path.parent for path in (service.data / "storage").rglob("_delta_log")]
        tables = [DeltaTable(str(each)).to_pyarrow_table() for each in folders]
        assert ["a", "b c"] in [sorted(each["name"].to_pylist()) for each in tables if "name" in each.column_names]
    for name in ("rows", "listed"):
        with service.client() as client:
            answer = client.get(f"/datasets/{found[name]['id']}/download?format=csv")
        assert answer.text.splitlines() == ["id,name", "2,b c"]


def test_appends_keep_types_and_partitions(service: Service) -> None:
    writer = Writer(service, output="output: {mode: append, partitionBy: [day, code]}")
    writer.run("id,price,day,code", "1,1.5,2026-01-01,a/b", "2,2.5,2026-01-02,")
    status = writer.run("id,price,day,code", "3,cheap,2026-01-01,a", state="FAILED")
    assert "'price' is double in the dataset and string in the new rows" in status["errorMessage"]
    writer.run("id,price,day,code,more", "3,7,2026-01-01,x,y")
    rows = [(1, 1.5, "2026-01-01", "a/b", None), (2, 2.5, "2026-01-02", None, None), (3, 7.0, "2026-01-01", "x", "y")]
    assert [tuple(row[name] for name in ("id", "price", "day", "code", "more")) for row in writer.query()] == rows
    reader = service.make_job(f"pipeline: [{{stage: load_parquet, args: ['{writer.dataset['storagePath']}']}}]")
    finish(service, reader)
    (loaded,) = service.get(f"/datasets?projectId={reader.project_id}")
    table = f"{loaded['schema']}.{loaded['tableName']}"
    columns = service.post("/datasets/query", {"sql": f"SHOW COLUMNS FROM {table}"})["results"]
    types = {each["Column"]: each["Type"] for each in columns}
    assert (types["day"], types["code"], loaded["rowCount"]) == ("date", "varchar", 3)
    assert b"a/b" in writer.download("jsonl")


@pytest.mark.parametrize("format_", ["parquet", "iceberg", pytest.param("delta", marks=pytest.mark.variant)])
def test_two_first_runs_at_once_keep_both(service: Service, format_: str) -> None:
    folder = service.data.parent / "files"
    (folder / "one.csv").write_text("id\n1\n2\n3\n")
    (folder / "two.csv").write_text("id\n4\n5\n")
    job = service.make_job(
        f"pipeline: [{{stage: load_csv, args: ['{folder}/${{FILE}}.csv']}}]\n"
        f"output: {{format: {format_}, mode: append}}\nspindle: {{engine: spark}}"
    )
    begun = [service.execute(job, {"parameters": {"FILE": name}}) for name in ("one", "two")]
    ended = [service.wait(job, each, seconds=600) for each in begun]
    assert [each["status"] for each in ended] == ["COMPLETED", "COMPLETED"], ended
    (dataset,) = service.get(f"/datasets?projectId={job.project_id}")
    body = {"sql": "SELECT id FROM dataset ORDER BY id", "datasetId": dataset["id"]}
    assert [row["id"] for row in service.post("/datasets/query", body)["results"]] == ["1", "2", "3", "4", "5"]


def test_the_mode_error_is_refused_before_the_run(service: Service) -> None:
    writer = Writer(service, output="output: {mode: error}")
    writer.run("id", "1")
    with service.client() as client:
        answer = client.post(f"{writer.job.path}/execute", json={})
    assert (answer.status_code, answer.json()["details"][0]["code"]) == (409, "output-exists")
