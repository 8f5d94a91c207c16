"""Datasets as records: create, change, filter, delete, download, versions, lineage and retention."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from core.data.datasets.collector import FileCollector
from core.infra.database import open_database
from core.infra.storage import open_storage
from core.infra.storage.protocol import event_log_key, event_logs_key, output_key
from core.tables import now
from tests.support.api import PIPELINE, ROWS, SCHEMA, Api, read_code
from tests.support.other_programs import read_parquet

SAVE = "pipeline:\n  - {stage: load_csv, args: ['%s']}\n"


def upload(api: Api, content: bytes, **fields: Any) -> Any:
    answer = api.call("POST", "/datasets/upload", files={"file": ("rows.csv", content)}, data=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def list_files(api: Api, dataset_id: str) -> list[str]:
    return [
        file.key for file in open_storage(api.settings.storage).list(f"{api.organization_id}/datasets/{dataset_id}")
    ]


def collect(api: Api, later: timedelta = timedelta(0), *, sweep: bool = False) -> None:
    database = open_database(api.settings)
    collector = FileCollector(api.settings, database, open_storage(api.settings.storage))
    if sweep:
        collector.sweep(now() + later)
    else:
        collector.collect(now() + later)
    database.close()


def test_a_dataset_is_created_changed_and_deleted(acme: Api) -> None:
    project = acme.project("dataset records")
    made = acme.post("/datasets", {"name": "Prices (EU)", "projectId": project, "datasetType": "input"})
    assert (made["schema"], made["tableName"]) == ("dataset_records", "prices_eu")
    assert (made["datasetType"], made["storagePath"]) == ("INPUT", "spindle://dataset_records/prices_eu")
    path = f"/datasets/{made['id']}"
    changed = acme.put(path, made | {"name": "Prices", "description": "", "type": None, "rowCount": 5})
    assert (changed["name"], changed["tableName"], changed["rowCount"]) == ("Prices", "prices_eu", None)
    assert acme.get(path) == changed
    assert acme.call("DELETE", path).json() == {}
    assert acme.call("GET", path).status_code == 404


def test_a_dataset_can_be_made_for_a_path(acme: Api) -> None:
    acme.project("paths of datasets")
    made = acme.post("/datasets", {"name": "X", "storagePath": "spindle://paths_of_datasets/in/goods"})
    assert (made["schema"], made["tableName"]) == ("paths_of_datasets", "goods")
    assert made["storagePath"] == "spindle://paths_of_datasets/in/goods"
    assert acme.post("/datasets", {"name": "Y", "filePath": "spindle://paths_of_datasets/in/goods"}) == made


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing-field"),
        ({"name": " "}, "invalid-value"),
        ({"name": "x", "datasetType": "BOTH"}, "invalid-value"),
        ({"name": "x", "projectId": "unknown"}, "not-found"),
        ({"name": "x", "storagePath": "s3://bucket/x"}, "path-outside-storage"),
        ({"name": "x", "storagePath": "/etc/passwd"}, "path-outside-storage"),
        ({"name": "x", "storagePath": "spindle://nobody/x"}, "path-outside-storage"),
        ({"name": "x", "storagePath": "spindle://default/../x"}, "path-outside-storage"),
    ],
)
def test_wrong_bodies_are_refused(acme: Api, body: Any, code: str) -> None:
    answer = acme.call("POST", "/datasets", json=body)
    assert read_code(answer) == (400, code)


def test_lists_are_filtered_in_any_case(acme: Api) -> None:
    project = acme.project("filters")
    made = upload(acme, b"a\n1\n", projectId=project, datasetType="Input")
    assert (made["format"], made["sourceFormat"], made["enabled"]) == ("parquet", "csv", True)
    full = made["id"]
    empty = acme.post("/datasets", {"name": "none", "projectId": project, "format": "DELTA"})["id"]

    def find(**params: str) -> list[str]:
        return [each["id"] for each in acme.get("/datasets", projectId=project, **params)]

    assert find() == [full, empty]
    assert find(datasetType="INPUT") == find(type="input") == [full]
    assert find(type="output") == find(format="Delta") == find(indexed="FALSE") == [empty]
    own, other = ("s3", "LOCAL") if acme.settings.storage.address else ("local", "S3")
    assert find(indexed="true", format="PARQUET", storageType=own, name="rows") == [full]
    assert find(format="CSV") == [full]
    assert find(storageType=other) == find(name="nobody") == find(format="jsonl") == find(format="avro\0") == []
    assert acme.call("GET", "/datasets?indexed=perhaps").status_code == 400


@pytest.mark.long
def test_a_download_has_all_rows_in_each_format(acme: Api) -> None:
    content = b'id,name,at,tags\n1,"a ""b""\nc",2026-01-02T03:04:05,\n2,,,x\n'
    made = upload(acme, content)
    path = f"/datasets/{made['id']}/download"
    text = acme.call("GET", path)
    assert text.headers["Content-Disposition"] == f'attachment; filename="{made["tableName"]}-1.csv"'
    assert text.headers["Content-Type"].startswith("text/csv")
    rows = [
        {"id": 1, "name": 'a "b"\nc', "at": "2026-01-02T03:04:05.000000", "tags": None},
        {"id": 2, "name": None, "at": None, "tags": "x"},
    ]
    read = list(csv.DictReader(io.StringIO(text.text)))
    assert read == [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows]
    lines = acme.call("GET", path, params={"format": "JSONL"}).text.splitlines()
    assert [json.loads(line) for line in lines] == rows
    whole = acme.call("GET", path, params={"format": "parquet"})
    table = pq.read_table(io.BytesIO(whole.content))
    assert table.column("id").to_pylist() == [1, 2]
    assert int(whole.headers["Content-Length"]) == len(whole.content)
    assert acme.call("GET", path, params={"format": "xlsx"}).status_code == 400
    empty = acme.post("/datasets", {"name": "never filled"})
    assert acme.call("GET", f"/datasets/{empty['id']}/download").status_code == 404


def test_a_stored_file_is_downloaded_in_parts(acme: Api) -> None:
    made = upload(acme, b"id\n1\n2\n")
    path = f"/datasets/{made['id']}/download?format=parquet"
    whole = acme.call("GET", path)
    assert (whole.status_code, whole.headers["Accept-Ranges"]) == (200, "bytes")
    content, size, tag = whole.content, len(whole.content), whole.headers["ETag"]

    def get(range_: str, **headers: str) -> httpx.Response:
        return acme.call("GET", path, headers={"Range": range_, **headers})

    for range_, start, end in (("bytes=0-3", 0, 4), ("bytes=4-", 4, size), ("bytes=-4", size - 4, size)):
        part = get(range_, **{"If-Range": tag})
        assert (part.status_code, part.content) == (206, content[start:end])
        assert part.headers["Content-Range"] == f"bytes {start}-{end - 1}/{size}"
    assert get("bytes=0-3", **{"If-Range": '"another"'}).content == content
    assert get("bytes=0-1,3-4").content == get("bytes=3-1").content == get("lines=1-2").content == content
    beyond = get(f"bytes={size}-")
    assert read_code(beyond) == (416, "invalid-range")
    assert get("bytes=0-3").headers["Content-Length"] == "4"
    assert acme.call("GET", f"/datasets/{made['id']}/download", headers={"Range": "bytes=0-1"}).text == "id\n1\n2\n"


def test_the_output_of_a_job_is_downloaded_too(acme: Api) -> None:
    job = acme.job("downloads")
    dataset = job.complete(job.execute(), ROWS)
    assert acme.call("GET", f"/datasets/{dataset}/download").text == "title,price\nkettle,19.5\nmug,\n"
    again = job.complete(job.execute(), ROWS.slice(0, 0))
    assert acme.call("GET", f"/datasets/{again}/download").text == "title,price\n"
    empty = acme.call("GET", f"/datasets/{again}/download", params={"format": "parquet"})
    assert pq.read_table(io.BytesIO(empty.content)).num_rows == 0


def test_an_output_without_rows_and_files_is_the_next_version(acme: Api) -> None:
    job = acme.job("empties its table")
    dataset = job.complete(job.execute(), ROWS)
    execution = job.execute()
    folder = output_key(acme.organization_id, execution, 1)
    done = {
        "outputDatasetPath": open_storage(acme.settings.storage).url_for(folder, "spark"),
        "outputDatasetFormat": "parquet",
        "outputDatasetSchema": SCHEMA,
        "recordsOutput": 0,
        "additionalMetrics": {"output": {"partitionBy": ["title"]}},
    }
    job.report(execution, "COMPLETED", **done)
    found = acme.get(f"/datasets/{dataset}")
    assert (found["version"], found["rowCount"]) == (2, 0)
    assert acme.post("/datasets/query", {"sql": "SELECT * FROM dataset", "datasetId": dataset})["results"] == []
    assert acme.call("GET", f"/datasets/{dataset}/download").text == "title,price\n"


@pytest.mark.long
def test_versions_are_listed_downloaded_and_queried(acme: Api) -> None:
    made = upload(acme, b"a\n1\n")
    for number in (2, 3):
        upload(acme, b"a\n" + b"5\n" * number, datasetId=made["id"])
    path = f"/datasets/{made['id']}"
    versions = acme.get(f"{path}/versions")
    assert [(each["version"], each["rowCount"], each["current"]) for each in versions] == [
        (3, 3, True),
        (2, 2, False),
        (1, 1, False),
    ]
    assert all(each["sizeBytes"] > 0 and each["executionId"] is None for each in versions)
    page = acme.call("GET", f"{path}/versions?limit=2")
    assert [each["version"] for each in page.json()] == [3, 2]
    following = page.links["next"]["url"]
    assert following.startswith(f"{acme.client.base_url}/api/svc/api/datasets/")
    assert [each["version"] for each in acme.call("GET", following).json()] == [1]
    first = {"version": versions[-1]["id"]}
    assert acme.call("GET", f"{path}/download", params=first).text == "a\n1\n"
    query = {"sql": "SELECT count(*) AS n FROM dataset", "datasetId": made["id"]}
    for version, rows in ((None, 3), (2, 2), ("1", 1)):
        assert acme.post("/datasets/query", query | {"version": version})["results"] == [{"n": rows}]
    for version in (4, "x", "1\0"):
        assert acme.call("POST", "/datasets/query", json=query | {"version": version}).status_code == 404
    assert acme.call("POST", "/datasets/query", json={"sql": "SELECT 1", "version": "1"}).status_code == 400


def test_lineage_names_writers_and_readers(acme: Api) -> None:
    source = upload(acme, b"a\n1\n", projectId=acme.project("lineage source"))
    reader = acme.job("lineage reader", pipeline=SAVE % source["storagePath"])
    execution = reader.execute()
    idle = acme.job("lineage idle")
    acme.put(idle.path, {"inputDatasetId": source["id"]})
    lineage = acme.get(f"/datasets/{source['id']}/lineage")
    assert [(link["jobId"], link["version"]) for link in lineage["writtenBy"]] == [(None, 1)]
    assert [(link["jobId"], link["executionId"], link["version"]) for link in lineage["readBy"]] == [
        (reader.id, execution, 1),
        (idle.id, None, None),
    ]
    assert lineage["readBy"][0]["jobName"] == "lineage reader"
    output = reader.complete(execution, ROWS)
    (writer,) = acme.get(f"/datasets/{output}/lineage")["writtenBy"]
    assert (writer["jobId"], writer["executionId"], writer["projectId"]) == (reader.id, execution, reader.project_id)
    refused = acme.call("DELETE", f"/datasets/{source['id']}")
    assert read_code(refused) == (409, "dataset-in-use")


@pytest.mark.long
def test_retention_keeps_what_is_read_and_deletes_files_later(acme: Api) -> None:
    made = upload(acme, b"a\n1\n", projectId=acme.project("retention"))
    for _ in range(3):
        upload(acme, b"a\n1\n", datasetId=made["id"])
    reader = acme.job("retention reader", pipeline=SAVE % made["storagePath"])
    execution = reader.execute()  # reads version 4
    path = f"/datasets/{made['id']}"
    kept = acme.put(f"{path}/retention", {"versions": 2})
    assert (kept["retainedVersions"], kept["retainedDays"]) == (2, None)
    assert [each["version"] for each in acme.get(f"{path}/versions")] == [4, 3]
    assert len(list_files(acme, made["id"])) == 4
    collect(acme)
    assert len(list_files(acme, made["id"])) == 4
    collect(acme, timedelta(hours=25))
    assert len(list_files(acme, made["id"])) == 2

    for _ in range(3):  # the collector applies it from then on
        upload(acme, b"a\n1\n", datasetId=made["id"])
    collect(acme)
    assert [each["version"] for each in acme.get(f"{path}/versions")] == [7, 6]
    collect(acme, timedelta(hours=25))
    collect(acme, timedelta(hours=60))
    assert len(list_files(acme, made["id"])) == 3, "an execution reads version 4"
    reader.report(execution, "FAILED", errorMessage="x")
    collect(acme, timedelta(hours=120))
    assert len(list_files(acme, made["id"])) == 2
    assert acme.post("/datasets/query", {"sql": f"SELECT * FROM retention.{made['tableName']}"})["results"]

    acme.put(f"{path}/retention", {"days": 1})
    collect(acme, timedelta(days=2))
    assert [each["version"] for each in acme.get(f"{path}/versions")] == [7]
    for body in ({"versions": 0}, {"days": -1}, {"versions": 10**9}):
        assert acme.call("PUT", f"{path}/retention", json=body).status_code == 400


@pytest.mark.long
def test_files_without_a_version_are_collected(acme: Api) -> None:
    kept, gone = upload(acme, b"a\n1\n"), upload(acme, b"a\n1\n")
    assert acme.call("DELETE", f"/datasets/{kept['id']}").status_code == 200
    assert acme.call("DELETE", f"/datasets/{gone['id']}?files=true").status_code == 200
    storage = open_storage(acme.settings.storage)
    orphan = f"{acme.organization_id}/datasets/nobody/version"
    storage.put(f"{orphan}/part-0.parquet", io.BytesIO(b"x"))
    job = acme.job("collected")
    job.complete(job.execute(), ROWS)
    failed = job.execute()
    left = f"{acme.organization_id}/executions/{failed}/1"
    for name in ("output/part-0.parquet", "saves/1/part-0.csv", "driver.log"):
        storage.put(f"{left}/{name}", io.BytesIO(b"x"))
    event_logs = [event_log_key(execution, 1) for execution in (failed, "deleted")]
    for key in event_logs:
        storage.put(key, io.BytesIO(b"x"))
    collect(acme, timedelta(hours=25), sweep=True)
    assert [file.key for file in storage.list(event_logs_key())] == event_logs[:1]
    job.report(failed, "FAILED", errorMessage="x")
    assert len(list(storage.list(left))) == 3
    collect(acme, timedelta(hours=30))
    assert list_files(acme, gone["id"]) == []
    collect(acme, timedelta(hours=30), sweep=True)
    collect(acme, timedelta(hours=60))
    assert list(storage.list(orphan)) == []
    assert [file.key.rpartition("/")[2] for file in storage.list(left)] == ["driver.log"]
    assert len(list_files(acme, kept["id"])) == 1, "it was deleted without its files"
    assert acme.call("GET", f"/datasets/{acme.get(job.path)['outputDatasetId']}/download").status_code == 200


def test_a_deleted_output_is_made_anew(acme: Api) -> None:
    job = acme.job("deleted output")
    first = job.complete(job.execute(), ROWS)
    assert acme.call("DELETE", f"/datasets/{first}?files=true").status_code == 200
    assert acme.get(job.path)["outputDatasetId"] is None
    second = job.complete(job.execute(), ROWS)
    assert second != first
    rows = acme.post("/datasets/query", {"sql": "SELECT count(*) AS n FROM deleted_output.deleted_output"})["results"]
    assert rows == [{"n": 2}]


@pytest.mark.long
def test_reading_and_writing_need_their_scopes(acme: Api, server: Any) -> None:
    made = upload(acme, b"a\n1\n")
    reader = server.caller(acme.organization_id, "datasets:read")
    assert reader.call("GET", f"/datasets/{made['id']}/download").status_code == 200
    assert reader.call("PUT", f"/datasets/{made['id']}", json={}).status_code == 403
    assert reader.call("POST", "/datasets/upload", files={"file": b"a\n1\n"}).status_code == 403
    nobody = server.caller(acme.organization_id, "etl:write")
    assert nobody.call("GET", f"/datasets/{made['id']}/versions").status_code == 403


@pytest.mark.long
def test_records_and_versions_have_the_folders_of_their_rows(acme: Api) -> None:
    assert acme.post("/datasets", {"name": "without rows"})["locations"] == []
    made = upload(acme, b"title,price\nkettle,19.5\n", name="with a place")
    again = upload(acme, b"title,price\nmug,3.5\n", datasetId=made["id"])
    newest, first = acme.get(f"/datasets/{made['id']}/versions")
    for record, title in ((again, "mug"), (newest, "mug"), (first, "kettle"), (made, "kettle")):
        assert record["locations"] == [record["location"]]
        assert record["metadataLocation"] is None
        assert pq.read_table(record["location"]).column("title").to_pylist() == [title]
    assert newest["location"] != first["location"]
    assert acme.get(f"/datasets/{made['id']}")["location"] == again["location"]


def test_appended_rows_are_in_all_locations(acme: Api) -> None:
    job = acme.job("appends to a place", pipeline=PIPELINE + "output: {mode: append}\n")
    first, second = (job.complete(job.execute(), ROWS) for _ in range(2))
    assert first == second
    record = acme.get(f"/datasets/{second}")
    assert len(record["locations"]) == 2
    assert record["location"] == record["locations"][-1]
    assert [read_parquet(location).num_rows for location in record["locations"]] == [2, 2]


def test_maintenance_of_files_has_nothing_to_do(acme: Api, rival: Api) -> None:
    made = upload(acme, b"a\n1\n", projectId=acme.project("maintenance"))
    path = f"/datasets/{made['id']}/maintain"
    nothing = {"filesRemoved": 0, "bytesRemoved": 0, "dueAt": None, "filesMerged": 0, "filesWritten": 0}
    assert acme.post(path, {"days": 7}) == nothing
    assert rival.call("POST", path, json={}).status_code == 404
    assert acme.call("POST", path, json={"days": -1}).status_code == 400
