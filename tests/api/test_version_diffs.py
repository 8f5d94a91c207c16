"""The differences of two versions of a dataset over REST."""

from __future__ import annotations

import csv
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.infra.storage.protocol import output_key
from tests.support.api import PIPELINE, Api, Job, Server, answered
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, wait_until
from tests.support.stored import store_rows

MERGE = PIPELINE + "output: {mode: merge, keys: [title]}\n"
FIRST = pa.table({"title": ["kettle", "mug", "pan"], "price": [19.5, None, float("nan")]})
SECOND = pa.table({"title": ["pan", "mug", "lid"], "price": [float("nan"), 2.5, None]})


def publish(api: Api, name: str, pipeline: str = PIPELINE) -> tuple[Job, str]:
    """Return a job that has published two versions, and its dataset."""
    job = api.job(name, pipeline=pipeline)
    for rows in (FIRST, SECOND):
        merged = {"merged": {"version": find_current(api, job)}} if pipeline == MERGE else {}
        dataset = job.complete(job.execute(), rows, additionalMetrics=merged)
    return job, dataset


def find_current(api: Api, job: Job) -> str | None:
    dataset = api.get(job.path)["outputDatasetId"]
    return api.get(f"/datasets/{dataset}/versions")[0]["id"] if dataset else None


def fetch(api: Api, query: str, **params: Any) -> Any:
    path = f"/datasets/queries/{query}"
    wait_until(lambda: api.get(path)["status"] not in ("PENDING", "RUNNING"), PATIENCE_SECONDS, every=POLL_SECONDS)
    assert api.get(path)["error"] is None
    return api.get(f"{path}/results", **params)


def diff(api: Api, dataset: str, before: object, after: object, **params: Any) -> Any:
    return api.get(f"/datasets/{dataset}/versions/{before}/diff/{after}", **params)


def refuse(api: Api, dataset: str, before: object, after: object, **params: Any) -> tuple[int, str, str]:
    answer = api.call("GET", f"/datasets/{dataset}/versions/{before}/diff/{after}", params=params)
    (detail,) = answer.json()["details"]
    return answer.status_code, detail["code"], detail["message"]


@pytest.mark.long
def test_rows_that_differ_come_in_pages_and_files(acme: Api) -> None:
    _, dataset = publish(acme, "compared", MERGE)
    found = diff(acme, dataset, 1, 2)
    assert (found["before"], found["after"], found["keys"], found["columns"]) == (1, 2, ["title"], [])
    assert found["counts"] == {"added": 1, "removed": 1, "changed": 1}
    rows = fetch(acme, found["queryId"])["rows"]
    assert rows == [
        {
            **{"kind": "removed", "title": "kettle", "changed": []},
            **{"before": {"title": "kettle", "price": 19.5}, "after": None},
        },
        {"kind": "added", "title": "lid", "changed": [], "before": None, "after": {"title": "lid", "price": None}},
        {
            **{"kind": "changed", "title": "mug", "changed": ["price"]},
            **{"before": {"title": "mug", "price": None}, "after": {"title": "mug", "price": 2.5}},
        },
    ]
    page = fetch(acme, found["queryId"], page=1, limit=2)
    assert (page["rows"], page["pages"], page["rowCount"]) == (rows[2:], 2, 3)
    results = f"/datasets/queries/{found['queryId']}/results"
    table = pq.read_table(io.BytesIO(acme.call("GET", results, params={"format": "parquet"}).content))
    assert [(row["kind"], row["after"]) for row in table.to_pylist()] == [(row["kind"], row["after"]) for row in rows]
    text = acme.call("GET", results, params={"format": "csv"}).text
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [(line["kind"], line["title"]) for line in lines] == [(row["kind"], row["title"]) for row in rows]
    assert "2.5" in lines[2]["after"]
    assert [diff(acme, dataset, 2, 1)["counts"][kind] for kind in ("added", "removed", "changed")] == [1, 1, 1]


def test_the_same_comparison_has_one_query(acme: Api) -> None:
    _, dataset = publish(acme, "compared twice", MERGE)
    found = diff(acme, dataset, 1, 2)
    fetch(acme, found["queryId"])
    assert diff(acme, dataset, 1, 2) == found
    assert diff(acme, dataset, 2, 1)["queryId"] != found["queryId"]
    assert acme.call("DELETE", f"/datasets/queries/{found['queryId']}").status_code == 200
    assert diff(acme, dataset, 1, 2)["queryId"] != found["queryId"]
    answered(acme.call("POST", f"/datasets/{dataset}/versions/1/restore"))
    assert diff(acme, dataset, 2, 3)["keys"] == ["title"]


def test_keys_come_from_the_output_or_the_request(acme: Api) -> None:
    _, dataset = publish(acme, "compared by request")
    assert refuse(acme, dataset, 1, 2)[:2] == (400, "missing-keys")
    assert diff(acme, dataset, 1, 2, keys="title")["counts"] == {"added": 1, "removed": 1, "changed": 1}
    both = {"added": 2, "removed": 2, "changed": 0}
    assert diff(acme, dataset, 1, 2, keys=" title , price")["counts"] == both
    assert diff(acme, dataset, 1, 2, keys=["title", "price"])["counts"] == both
    status, code, message = refuse(acme, dataset, 1, 2, keys="title,nothing")
    assert (status, code, "no column 'nothing'" in message) == (400, "COLUMN_NOT_FOUND", True)
    assert refuse(acme, dataset, 1, 3, keys="title")[:2] == (404, "unknown-version")
    other = acme.job("compared with duplicates")
    dataset = other.complete(other.execute(), pa.concat_tables([FIRST, FIRST.slice(1, 1)]))
    other.complete(other.execute(), FIRST)
    status, code, message = refuse(acme, dataset, 1, 2, keys="title")
    assert (status, code) == (400, "repeated-keys")
    assert "version 1 of compared_with_duplicates.compared_with_duplicates have the same keys (title mug)" in message


def test_a_restored_version_does_not_differ_also_after_an_append(acme: Api) -> None:
    job = acme.job("compared after a restore", pipeline=PIPELINE + "output: {mode: append}\n")
    for rows in (FIRST, SECOND.slice(2)):
        dataset = job.complete(job.execute(), rows)
    answered(acme.call("POST", f"/datasets/{dataset}/versions/1/restore"))
    nothing = {"added": 0, "removed": 0, "changed": 0}
    assert diff(acme, dataset, 1, 3, keys="title")["counts"] == nothing
    job.complete(job.execute(), SECOND.slice(2))
    found = diff(acme, dataset, 1, 3, keys="title")
    assert (found["counts"], fetch(acme, found["queryId"])["rows"]) == (nothing, [])
    assert diff(acme, dataset, 3, 4, keys="title")["counts"] == nothing | {"added": 1}
    assert diff(acme, dataset, 2, 4, keys="title")["counts"] == nothing


def test_versions_in_text_formats_are_not_compared(acme: Api) -> None:
    job = acme.job("compared text")
    execution = job.execute()
    output = store_rows(acme.settings, output_key(acme.organization_id, execution, 1), FIRST)
    job.report(execution, "COMPLETED", outputDatasetPath=output, outputDatasetFormat="csv", recordsOutput=3)
    dataset = acme.get(job.path)["outputDatasetId"]
    assert refuse(acme, dataset, 1, 1, keys="title")[:2] == (400, "unsupported-format")


@pytest.mark.parametrize("operation", ["diff/2", "restore"])
def test_versions_of_another_organization_are_unknown(acme: Api, server: Server, operation: str) -> None:
    _, dataset = publish(acme, f"compared by others {operation[:4]}", MERGE)
    rival = server.caller(f"rival of versions {operation[:4]}", "admin")
    _, own = publish(rival, "rivals own", MERGE)
    method = "POST" if operation == "restore" else "GET"
    (version, *_) = acme.get(f"/datasets/{dataset}/versions")
    unknown = rival.call(method, f"/datasets/01990000-0000-7000-8000-000000000000/versions/1/{operation}")
    foreign = rival.call(method, f"/datasets/{dataset}/versions/1/{operation}")
    named = rival.call(method, f"/datasets/{own}/versions/{version['id']}/{operation}")
    assert (unknown.status_code, foreign.status_code, named.status_code) == (404, 404, 404)
    assert unknown.json()["error"] == foreign.json()["error"]
    assert named.json()["details"][0]["code"] == "unknown-version"
    nobody = server.caller(acme.organization_id, "etl:read")
    assert nobody.call(method, f"/datasets/{dataset}/versions/1/{operation}").status_code == 403
