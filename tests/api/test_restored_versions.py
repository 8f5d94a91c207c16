"""Earlier versions of datasets that are made current again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.datasets.collector import FileCollector
from core.infra.database import open_database
from core.infra.storage import open_storage
from core.tables import now
from tests.support.api import PIPELINE, ROWS, Api, Job, Server
from tests.support.other_programs import read_parquet

APPEND = PIPELINE + "output: {mode: append}\n"
DAYS = timedelta(days=9)


def count(api: Api, job: Job) -> int:
    """Return the number of rows that SQL finds in the job's table."""
    body = {"sql": "SELECT count(*) AS n FROM dataset", "datasetId": api.get(job.path)["outputDatasetId"]}
    return api.post("/datasets/query", body)["results"][0]["n"]


def restore(api: Api, dataset: str, version: object, **headers: str) -> Any:
    answer = api.call("POST", f"/datasets/{dataset}/versions/{version}/restore", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refuse(api: Api, dataset: str, version: object) -> tuple[int, str]:
    answer = api.call("POST", f"/datasets/{dataset}/versions/{version}/restore")
    return answer.status_code, answer.json()["details"][0]["code"]


def test_a_restored_version_has_the_files_of_the_earlier_one_and_is_continued(acme: Api) -> None:
    job = acme.job("restored append", pipeline=APPEND)
    for _ in range(3):
        dataset = job.complete(job.execute(), ROWS)
    assert count(acme, job) == 6
    made = restore(acme, dataset, 1)
    newest, _, _, first = acme.get(f"/datasets/{dataset}/versions")
    assert newest == made
    assert (made["version"], made["restoredFrom"], made["current"], made["executionId"]) == (4, 1, True, None)
    same = {name: made[name] for name in ("format", "locations", "rowCount", "sizeBytes")}
    assert same == {name: first[name] for name in same}
    assert (first["restoredFrom"], first["current"]) == (None, False)
    assert (count(acme, job), acme.get(f"/datasets/{dataset}")["version"]) == (2, 4)
    job.complete(job.execute(), ROWS)
    newest, restored, *_ = acme.get(f"/datasets/{dataset}/versions")
    assert newest["locations"][:1] == restored["locations"]
    assert (len(newest["locations"]), newest["restoredFrom"], count(acme, job)) == (2, None, 4)
    assert [link["jobId"] for link in acme.get(f"/datasets/{dataset}/lineage")["writtenBy"]] == [job.id]


@pytest.mark.long
def test_columns_come_back_and_an_id_names_a_version(acme: Api) -> None:
    files = {"files": {"file": ("a.csv", b"id,name\n1,a\n")}}
    dataset = acme.call("POST", "/datasets/upload", **files).json()["id"]
    other = {"files": {"file": ("a.csv", b"id,price\n1,2.5\n")}, "data": {"datasetId": dataset}}
    assert acme.call("POST", "/datasets/upload", **other).status_code == 200
    _, first = acme.get(f"/datasets/{dataset}/versions")
    restore(acme, dataset, first["id"])
    query = {"sql": "SELECT * FROM dataset", "datasetId": dataset}
    assert acme.post("/datasets/query", query)["results"] == [{"id": 1, "name": "a"}]
    download = acme.call("GET", f"/datasets/{dataset}/download")
    assert download.text.splitlines()[0] == "id,name"


def test_a_repeated_request_restores_once(acme: Api) -> None:
    job = acme.job("restored once")
    dataset = job.complete(job.execute(), ROWS)
    job.complete(job.execute(), ROWS)
    key = {"Idempotency-Key": "restore once"}
    assert restore(acme, dataset, 1, **key) == restore(acme, dataset, 1, **key)
    assert len(acme.get(f"/datasets/{dataset}/versions")) == 3


def test_a_dataset_that_is_being_written_is_not_restored(acme: Api) -> None:
    job = acme.job("restored while written")
    dataset = job.complete(job.execute(), ROWS)
    running = job.execute()
    assert refuse(acme, dataset, 1) == (409, "dataset-written")
    job.report(running, "FAILED", errorMessage="x")
    assert restore(acme, dataset, 1)["version"] == 2
    path = "spindle://restored_while_written/saved"
    writer = acme.job("writes a path", pipeline=f"{PIPELINE}output: {{path: '{path}'}}\n")
    written = writer.execute()
    made = acme.post("/datasets", {"name": "saved", "storagePath": path})["id"]
    content = {"files": {"file": ("a.csv", b"id\n1\n")}, "data": {"datasetId": made}}
    assert acme.call("POST", "/datasets/upload", **content).status_code == 200
    assert refuse(acme, made, 1) == (409, "dataset-written")
    writer.report(written, "FAILED", errorMessage="x")
    assert restore(acme, made, 1)["version"] == 2


def test_what_cannot_be_restored_is_named(acme: Api) -> None:
    job = acme.job("not restored")
    dataset = job.complete(job.execute(), ROWS)
    for version in (2, "none", "0"):
        assert refuse(acme, dataset, version) == (404, "unknown-version")
    job.complete(job.execute(), ROWS)
    storage = open_storage(acme.settings.storage)
    _, first = acme.get(f"/datasets/{dataset}/versions")
    key = storage.find_key(first["location"]) or ""
    for file in list(storage.list(key)):
        storage.delete(file.key)
    assert refuse(acme, dataset, 1) == (409, "missing-files")


def test_restoring_needs_the_scope_to_write(acme: Api, server: Server) -> None:
    job = acme.job("restored by scope")
    dataset = job.complete(job.execute(), ROWS)
    reader = server.caller(acme.organization_id, "datasets:read")
    assert refuse(reader, dataset, 1) == (403, "missing-scope")
    assert restore(server.caller(acme.organization_id, "datasets:write"), dataset, 1)["version"] == 2


def test_files_stay_while_a_restored_version_has_them(acme: Api) -> None:
    job = acme.job("restored and kept")
    for _ in range(2):
        dataset = job.complete(job.execute(), ROWS)
    made = restore(acme, dataset, 1)
    acme.put(f"/datasets/{dataset}/retention", {"versions": 1})
    assert [each["version"] for each in acme.get(f"/datasets/{dataset}/versions")] == [3]
    collect(acme)
    assert read_parquet(made["location"]).num_rows == 2
    assert count(acme, job) == 2
    job.complete(job.execute(), ROWS)
    collect(acme)
    collect(acme)
    assert (
        list(
            open_storage(acme.settings.storage).list(
                open_storage(acme.settings.storage).find_key(made["location"]) or ""
            )
        )
        == []
    )


def test_two_readers_see_whole_versions_during_restores(acme: Api) -> None:
    job = acme.job("restored under readers", pipeline=APPEND)
    versions = [pa.table({"title": [name] * count, "price": [1.0] * count}) for name, count in (("a", 300), ("b", 200))]
    for rows in versions:
        dataset = job.complete(job.execute(), rows)
    sql = "SELECT title, count(*) AS n FROM dataset GROUP BY title ORDER BY title"
    whole = [[{"title": "a", "n": 300}], [{"title": "a", "n": 300}, {"title": "b", "n": 200}]]
    stop = Event()

    def read() -> list[Any]:
        seen: list[Any] = []
        while not stop.is_set() or not seen:
            seen.append(acme.post("/datasets/query", {"sql": sql, "datasetId": dataset})["results"])
        return seen

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for turn in range(10):
            restore(acme, dataset, 1 + turn % 2)
        stop.set()
        seen = [each for reader in readers for each in reader.result()]
    assert all(each in whole for each in seen), seen


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "overwrite", "restore"]), st.integers(0, 9)), min_size=2, max_size=7
)


@pytest.mark.long
@given(steps=STEPS)
@settings(max_examples=6)
def test_versions_have_their_rows_whatever_was_restored(acme: Api, steps: list[tuple[str, int]]) -> None:
    job = acme.job(f"restored {uuid4().hex[:8]}")
    agent = f"/agents/none/{job.agent_id}"
    versions: list[list[str]] = []
    for at, (step, number) in enumerate([("overwrite", 0), *steps]):
        dataset = acme.get(job.path)["outputDatasetId"]
        if step == "restore":
            restored = number % len(versions)
            restore(acme, dataset, restored + 1)
            versions.append(versions[restored])
            continue
        acme.put(agent, {"pipelineYaml": f"{PIPELINE}output: {{mode: {step}}}\n"})
        titles = [f"{at}.{row}" for row in range(number % 3)] or ["one"]
        dataset = job.complete(job.execute(), pa.table({"title": titles, "price": [1.0] * len(titles)}))
        versions.append([*(versions[-1] if step == "append" else []), *titles])
    for number, titles in enumerate(versions, 1):
        body = {"sql": "SELECT title FROM dataset", "datasetId": dataset, "version": number}
        assert sorted(row["title"] for row in acme.post("/datasets/query", body)["results"]) == sorted(titles)
    assert acme.get(f"/datasets/{dataset}")["rowCount"] == len(versions[-1])


def collect(api: Api) -> None:
    """Apply retention, and delete the files that are due in nine days."""
    database = open_database(api.settings)
    collector = FileCollector(api.settings, database, open_storage(api.settings.storage))
    collector.collect(now())
    collector.collect(now() + DAYS)
    database.close()
