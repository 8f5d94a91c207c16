"""Executions over REST: ten at once and a queue, cancel, retry, stop, and lists in pages."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from io import BytesIO

import httpx
import pytest

from core.infra.storage import open_storage
from core.infra.storage.protocol import files_key
from tests.support.api import ROWS, SCHEMA, Api, Job, read_code
from tests.support.other_programs import read_parquet


def executes(job: Job, count: int, *, queue: bool = False) -> list[httpx.Response]:
    query = {"queue": "true"} if queue else {}
    with ThreadPoolExecutor(min(count, 40)) as pool:
        return list(pool.map(lambda _: job.api.call("POST", f"{job.path}/execute", params=query), range(count)))


def test_of_thirty_simultaneous_executes_ten_start_and_the_others_get_retry_after(job: Job):
    answers = executes(job, 30)
    accepted = [answer for answer in answers if answer.status_code == 200]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert (len(accepted), len(refused)) == (10, 20)
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in refused)
    assert len(job.api.get(f"{job.path}/executions")) == 10


def test_the_others_wait_where_they_ask_for_it(job: Job):
    answers = executes(job, 14, queue=True)
    assert {answer.status_code for answer in answers} == {200}
    waiting = [answer.json()["executionId"] for answer in answers if "waits" in answer.json()["message"]]
    assert len(waiting) == 4
    assert {job.status(execution)["status"] for execution in waiting} == {"PENDING"}
    assert executes(job, 1)[0].status_code == 429
    cancelled = job.api.post(f"{job.path}/executions/{waiting[1]}/cancel")
    assert (cancelled["status"], cancelled["errorMessage"]) == ("FAILED", "The execution was cancelled.")
    job.report(waiting[0], "RUNNING")  # it has not begun
    assert job.status(waiting[0])["status"] == "PENDING"


def test_a_task_waits_as_well(acme: Api, job: Job):
    executes(job, 10)
    task = acme.post(f"{job.path}/tasks", {"name": "waits"})["id"]
    start = f"{job.path}/tasks/{task}/start"
    assert acme.call("POST", start).status_code == 429
    assert acme.call("POST", start, params={"queue": "true"}).status_code == 200
    assert acme.get(f"{job.path}/tasks/{task}/status")["status"] == "PENDING"
    assert acme.call("POST", start, params={"queue": "true"}).status_code == 409
    assert acme.call("POST", f"{job.path}/tasks/{task}/stop").status_code == 200
    assert acme.get(f"{job.path}/tasks/{task}/status")["status"] == "FAILED"


@pytest.mark.parametrize("spelling", ["/projects/id/{}", "/projects/{}"])
def test_cancel_and_retry_in_both_spellings(acme: Api, job: Job, spelling: str):
    jobs = f"{spelling.format(job.project_id)}/jobs/{job.id}"
    first, second = job.execute(), job.execute()
    assert acme.call("DELETE", f"{jobs}/executions/{first}").json()["status"] == "FAILED"
    assert acme.post(f"{jobs}/executions/{second}/cancel")["status"] == "FAILED"
    assert acme.post(f"{jobs}/executions/{second}/cancel")["status"] == "FAILED"
    again = acme.post(f"{jobs}/executions/{first}/retry")
    assert (again["executionId"], again["status"], again["success"]) == (first, "SUBMITTED", True)
    record = acme.get(f"{jobs}/executions/{first}")
    assert (record["status"], record["attempt"], record["errorMessage"]) == ("PENDING", 2, None)
    assert acme.call("POST", f"{jobs}/executions/{first}/retry").status_code == 409


def test_a_retry_waits_and_is_repeated_as_an_execute_is(acme: Api, job: Job):
    failed = job.execute()
    job.report(failed, "FAILED", errorMessage="It broke.")
    executes(job, 10)
    retry, key = f"{job.path}/executions/{failed}/retry", {"Idempotency-Key": f"retry {failed}"}
    assert acme.call("POST", retry, headers=key).status_code == 429
    for _ in range(2):
        answer = acme.call("POST", retry, params={"queue": "true"}, headers=key)
        assert (answer.status_code, answer.json()["status"]) == (200, "SUBMITTED")
        assert "waits" in answer.json()["message"]
    record = acme.get(f"{job.path}/executions/{failed}")
    assert (record["status"], record["attempt"]) == ("PENDING", 2)
    other = f"{job.path}/execute"
    assert acme.call("POST", other, params={"queue": "true"}, headers=key).status_code == 409


def test_stopping_a_job_ends_all_of_its_executions(acme: Api, job: Job):
    executions = [answer.json()["executionId"] for answer in executes(job, 12, queue=True)]
    job.report(executions[0], "FAILED", errorMessage="by itself")
    assert acme.post(f"{job.path}/stop")["executionStatus"] == "FAILED"
    messages = [job.status(execution)["errorMessage"] for execution in executions]
    assert messages == ["by itself", *["The job was stopped."] * 11]


def test_executions_are_listed_newest_first_in_pages(acme: Api, job: Job):
    executions = [job.execute() for _ in range(5)]
    assert [one["executionId"] for one in acme.get(f"{job.path}/executions")] == executions[::-1]
    first = acme.call("GET", f"{job.path}/executions", params={"limit": 2})
    assert [one["executionId"] for one in first.json()] == executions[:2:-1]
    rest = acme.call("GET", first.headers["Link"].split(">")[0].removeprefix("<"))
    assert [one["executionId"] for one in rest.json()] == executions[2:0:-1]


def test_a_completion_of_another_system_is_shown_as_it_was_reported(acme: Api, job: Job):
    execution = job.execute()
    texts = {"outputDatasetPath": "s3://bucket/x", "outputDatasetFormat": "delta", "outputDatasetSchema": "a text"}
    impossible = {"startedAt": "9999-12-31T23:59:59-05:00", "recordsOutput": -1}
    known = {"sparkApplicationName": "nightly", "durationSeconds": 90}
    body = {"executionId": execution, "status": "COMPLETED", **texts, **impossible, **known}
    assert acme.call("POST", f"{job.path}/completion", json=body | {"jobId": "another"}).status_code == 400
    answer = acme.call("POST", f"{job.path}/completion", json=body | {"jobId": job.id})
    assert (answer.status_code, answer.json()) == (200, {})
    record = acme.get(f"{job.path}/executions/{execution}")
    assert {name: record[name] for name in texts} == texts
    assert (record["status"], record["datasetId"], record["executionTimeSeconds"]) == ("COMPLETED", None, 90)
    assert record["sparkApplicationName"] == "nightly"
    read = acme.get(job.path)
    log = acme.get(f"{job.path}/tasks/{read['taskIds'][0]}")["executionLog"]
    assert read["outputDatasetId"] is None
    assert len([line for line in log.splitlines() if line.startswith("WARN ")]) == 3


def test_an_execution_that_published_a_dataset_has_its_place_format_and_columns(acme: Api, job: Job):
    execution = job.execute()
    assert acme.get(f"{job.path}/executions/{execution}")["outputDatasetPath"] is None
    dataset = acme.get(f"/datasets/{job.complete(execution, ROWS)}")
    record = acme.get(f"{job.path}/executions/{execution}")
    assert (record["outputDatasetFormat"], json.loads(record["outputDatasetSchema"])) == ("parquet", json.loads(SCHEMA))
    assert record["outputDatasetPath"] == dataset["location"]
    assert read_parquet(record["outputDatasetPath"]).to_pylist() == ROWS.to_pylist()


def test_a_file_that_an_execution_downloaded_is_read_by_its_hash(job: Job):
    execution, digest = job.execute(), sha256(b"%PDF").hexdigest()
    key = f"{files_key(job.api.organization_id, execution)}/{digest}"
    open_storage(job.api.settings.storage).put(key, BytesIO(b"%PDF"))
    answer = job.api.call("GET", f"{job.path}/executions/{execution}/files/{digest}")
    assert (answer.status_code, answer.content, answer.headers["Content-Length"]) == (200, b"%PDF", "4")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    part = job.api.call("GET", f"{job.path}/executions/{execution}/files/{digest}", headers={"Range": "bytes=1-2"})
    assert (part.status_code, part.content, part.headers["ETag"]) == (206, b"PD", answer.headers["ETag"])
    for other in (sha256(b"").hexdigest(), digest.upper(), ".bytes", "%2e%2e%2fspec.json"):
        assert job.api.call("GET", f"{job.path}/executions/{execution}/files/{other}").status_code == 404
    other_execution = job.execute()
    assert job.api.call("GET", f"{job.path}/executions/{other_execution}/files/{digest}").status_code == 404


def test_the_rows_of_a_trial_are_read_by_id_and_by_sql(acme: Api, job: Job):
    published, trial = job.execute(), job.execute({"publish": False, "limit": 1})
    dataset = job.complete(published, ROWS)
    assert job.complete(trial, ROWS.slice(0, 1)) == dataset
    record = acme.get(f"{job.path}/executions/{trial}")
    assert (record["publishes"], record["datasetId"] == dataset) == (False, False)
    table = acme.get(f"/datasets/{record['datasetId']}")
    name = f"{table['schema']}.{table['tableName']}"
    assert name.endswith(f"@{trial}")
    task = record["taskId"]
    for sql, path in ((f"SELECT title FROM {name}", ""), ("SELECT title FROM output", f"/task/{task}")):
        assert acme.post(f"/datasets/query{path}", {"sql": sql})["results"] == [{"title": "kettle"}]
    text = f'-- {name}\nSELECT count(*) AS n, \'{name}\' AS name FROM "{table["schema"]}"."{table["tableName"]}"'
    assert acme.post("/datasets/query", {"sql": text})["results"] == [{"n": 1, "name": name}]
    whole = acme.post("/datasets/query", {"sql": f"SELECT count(*) AS n FROM {name.partition('@')[0]}"})
    assert whole["results"] == [{"n": 2}]
    assert not any("@" in each["name"] for each in acme.get("/datasets/query/tables"))


def test_ten_thousand_rows_in_one_body_are_given_to_one_execution(acme: Api):
    job = acme.job("Given", pipeline="pipeline: [{stage: load_rows}, {stage: wget, args: [$url]}]")
    rows = [f"https://shop.example/products/{number}?variant=large" for number in range(10_000)]
    repeated = {"Idempotency-Key": "ten thousand"}
    answers = [acme.call("POST", f"{job.path}/execute", json={"rows": rows}, headers=repeated) for _ in range(2)]
    (execution,) = {each.json()["executionId"] for each in answers}
    assert acme.get(f"{job.path}/executions/{execution}")["givenRows"] == 10_000
    other = acme.call("POST", f"{job.path}/execute", json={"rows": rows[1:]}, headers=repeated)
    assert other.status_code == 409
    refused = acme.call("POST", f"{job.path}/execute", json={"rows": [*rows[:5], None]})
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, "rows.5")
    large = acme.call("POST", f"{job.path}/execute", json={"rows": [{"text": "x" * 500}] * 10_000})
    assert read_code(large) == (413, "too-large")


def test_a_limit_alone_publishes(acme: Api, job: Job):
    limited = job.execute({"limit": 1})
    job.complete(limited, ROWS.slice(0, 1))
    assert acme.get(f"{job.path}/executions/{limited}")["publishes"]
