"""The thread as a client walks it: from a project to rows in SQL."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from standardwebhooks import Webhook

from core.definitions.credentials.repository import MASK
from core.infra.storage.protocol import log_key
from core.lifecycle.executions.tokens import execution_token
from tests.support.api import PIPELINE, ROWS, Api, Job, Server
from tests.support.stored import store_text


def test_a_pipeline_becomes_rows_that_sql_answers(acme: Api):
    project = acme.post("/projects", {"name": "The shop", "description": "d", "cronSchedule": "0 5 * * *"})
    category = acme.post("/categories", {"name": "Crawlers", "visibility": "private"})
    agent = acme.post("/agents", {"name": "a", "categoryId": category["id"], "pipelineYaml": PIPELINE})
    job = acme.post(f"/projects/id/{project['id']}/jobs", {"name": "Products", "agentId": agent["id"]})
    assert (project["enabled"], job["enabled"], agent["enabled"]) == (True, True, True)
    assert (job["executionStatus"], job["latestExecutionId"], job["taskIds"]) == ("PENDING", None, [])
    job = Job(acme, project["id"], job["id"], agent["id"])

    submission = acme.post(f"{job.path}/execute")
    assert submission["status"] == "SUBMITTED"
    assert submission["success"] is True
    execution = submission["executionId"]
    assert job.status(execution)["status"] == "PENDING"

    progress = {"fraction": 0.5, "stages": []}
    job.report(execution, "RUNNING", sparkUiUrl="http://127.0.0.1:4040", additionalMetrics={"progress": progress})
    status = job.status(execution)
    assert (status["status"], status["progress"], status["sparkUiUrl"]) == (
        "RUNNING",
        progress | {"startSeconds": 0.0, "checks": [], "requests": [], "model": None, "failedPages": []},
        "http://127.0.0.1:4040",
    )
    assert status["completedAt"] is None

    dataset = job.complete(execution, ROWS)
    status = job.status(execution)
    assert (status["status"], status["errorMessage"]) == ("COMPLETED", None)
    assert datetime.fromisoformat(status["completedAt"]) >= datetime.fromisoformat(status["startedAt"])
    assert acme.get(job.path)["executionStatus"] == "COMPLETED"

    rows = [{"title": "kettle", "price": 19.5}, {"title": "mug", "price": None}]
    sql = "SELECT * FROM spindle.the_shop.products ORDER BY title"
    assert acme.post("/datasets/query", {"sql": sql}) == {"results": rows}
    bound = acme.post(
        f"{job.path}/datasets/{dataset}/query", {"sql": "SELECT * FROM output ORDER BY 1", "format": "json"}
    )
    assert (bound["status"], bound["rows"], bound["rowCount"]) == ("COMPLETED", rows, 2)
    assert acme.get(f"{job.path}/datasets/{dataset}/schema") == {
        "datasetId": dataset,
        "tableName": "products",
        "schema": {
            "columns": [
                {"name": "title", "type": "varchar", "description": None},
                {"name": "price", "type": "double", "description": None},
            ]
        },
        "rowCount": 2,
        "sizeBytes": 1234,
    }
    record = acme.get(f"/datasets/{dataset}")
    assert (record["format"], record["rowCount"], record["jobId"]) == ("parquet", 2, job.id)
    assert record["storagePath"] == "spindle://the_shop/products"
    assert [each["name"] for each in record.pop("columns")] == ["title", "price"]
    assert record in acme.get("/datasets")
    table = {"catalog": "spindle", "schema": "the_shop", "name": "products", "datasetId": dataset}
    assert acme.get("/datasets/query/tables", schema="the_shop") == [table]
    columns = acme.get("/datasets/query/columns", catalog="minio", schema="the_shop", table="products")
    assert [(each["name"], each["type"]) for each in columns] == [("title", "varchar"), ("price", "double")]


def test_a_task_is_one_run_of_its_job(acme: Api, job: Job):
    execution, waiting = job.execute(), job.execute()
    job.report(execution, "RUNNING", additionalMetrics={"progress": {"fraction": 0.25, "stages": []}})
    task, second = acme.get(f"{job.path}/tasks")
    assert acme.get(job.path)["taskIds"] == [task["id"], second["id"]]
    assert (task["executionReferenceId"], second["executionReferenceId"]) == (execution, waiting)
    assert (task["name"].rsplit(" ", 1)[1], task["executionStatus"], task["taskType"]) == ("#1", "RUNNING", "SPARK")
    assert task["apiKey"] is None
    path = f"{job.path}/tasks/{task['id']}"
    assert acme.get(path) == task
    assert acme.get(f"{path}/status") == {"status": "RUNNING", "progress": 0.25}
    assert acme.get(f"{job.path}/tasks/{second['id']}/status") == {"status": "PENDING", "progress": 0.0}

    query = f"/datasets/query/task/{task['id']}"
    assert acme.call("GET", f"{query}/info").status_code == 404
    dataset = job.complete(execution, ROWS)
    assert acme.get(f"{path}/status") == {"status": "COMPLETED", "progress": 1.0}
    rows = acme.post(query, {"sql": "SELECT title FROM output ORDER BY title"})
    assert rows == {"results": [{"title": "kettle"}, {"title": "mug"}]}
    assert acme.get(f"{query}/info")["datasetId"] == dataset == acme.get(path)["outputDatasetId"]
    for wrong in ("0", "x", "9" * 30):
        assert acme.call("GET", f"{job.path}/tasks/{wrong}").status_code == 404
    metrics = acme.get(f"{path}/metrics")
    assert (metrics["taskId"], metrics["status"], metrics["recordsOutput"]) == (int(task["id"]), "COMPLETED", 2)
    assert metrics["driverMemoryUsedBytes"] is None


def test_a_task_that_was_created_is_started_and_stopped(acme: Api, job: Job):
    task = acme.post(f"{job.path}/tasks", {"name": "mine", "botId": "b", "taskType": "BROWSER", "apiKey": "secret"})
    assert (task["executionStatus"], task["taskType"], task["enabled"]) == ("PENDING", "BROWSER", True)
    assert task["apiKey"] == MASK
    path = f"{job.path}/tasks/{task['id']}"
    changed = acme.put(path, task | {"description": "d", "executionStatus": "FAILED"})
    assert changed == task | {"description": "d", "updatedAt": changed["updatedAt"]}
    assert acme.call("POST", f"{job.path}/tasks", json={"name": ""}).status_code == 400
    assert acme.call("POST", f"{path}/stop").status_code == 200  # it does not run yet
    started = acme.call("POST", f"{path}/start")
    assert (started.status_code, started.content) == (200, b"")
    assert acme.call("POST", f"{path}/start").status_code == 409
    execution = acme.get(path)["executionReferenceId"]
    assert acme.get(f"{job.path}/executions")[0]["taskId"] == task["id"]
    for _ in range(2):
        stopped = acme.call("POST", f"{path}/stop")
        assert (stopped.status_code, stopped.content) == (200, b"")
    assert job.status(execution)["errorMessage"] == "The task was stopped."
    assert acme.get(path)["executionStatus"] == "FAILED"
    deleted = acme.call("DELETE", path)
    assert (deleted.status_code, deleted.content) == (200, b"")
    assert acme.call("GET", path).status_code == 404
    assert job.status(execution)["status"] == "FAILED"


def test_tasks_come_page_by_page_too(acme: Api, job: Job):
    ids = [acme.post(f"{job.path}/tasks", {"name": str(n)})["id"] for n in range(3)]
    first = acme.call("GET", f"{job.path}/tasks", params={"limit": 2})
    second = acme.call("GET", first.links["next"]["url"])
    assert [task["id"] for task in first.json() + second.json()] == ids
    assert acme.call("GET", f"{job.path}/tasks", params={"cursor": "x"}).status_code == 400


def signed(token: str, body: bytes, at: float | None = None) -> dict[str, str]:
    sent = datetime.fromtimestamp(int(at or time.time()), UTC)
    signature = Webhook(token).sign("msg_1", sent, body.decode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(int(sent.timestamp())), "webhook-signature": signature}


def test_the_driver_reports_with_the_executions_own_signature(acme: Api, job: Job):
    execution = job.execute()
    body = json.dumps({"executionId": execution, "status": "RUNNING", "additionalMetrics": {"attempt": 1}}).encode()
    path = f"/api/svc/api{job.path}/completion"

    def report(token: str, text: bytes = body, **headers: Any) -> tuple[int, Any]:
        response = acme.client.post(path, content=text, headers=signed(token, body, **headers))
        return response.status_code, response.json()

    token = execution_token(acme.settings, execution, 1)
    assert report(execution_token(acme.settings, execution, 2))[0] == 401
    assert report(execution_token(acme.settings, "another", 1))[0] == 401
    assert report(token, body.replace(b"RUNNING", b"FAILED"))[0] == 401
    assert report(token, at=time.time() - 600)[0] == 401
    assert job.status(execution)["status"] == "PENDING"
    assert report(token) == (200, {})
    assert report(token) == (200, {})
    assert job.status(execution)["status"] == "RUNNING"


def test_the_token_identifies_the_attempt(acme: Api, job: Job):
    execution = job.execute()
    first, second = (execution_token(acme.settings, execution, attempt) for attempt in (1, 2))
    job.report(execution, "FAILED", errorMessage="It broke.")
    acme.post(f"{job.path}/executions/{execution}/retry")

    def report(token: str, status: str, **metrics: Any) -> int:
        body = json.dumps({"executionId": execution, "status": status, "additionalMetrics": metrics}).encode()
        return acme.client.post(
            f"/api/svc/api{job.path}/completion", content=body, headers=signed(token, body)
        ).status_code

    assert report(first, "FAILED") == 200
    assert report(first, "FAILED", attempt=2) == 401
    assert job.status(execution)["status"] == "PENDING"
    assert report(second, "RUNNING") == 200
    assert report(first, "COMPLETED") == 200
    assert job.status(execution)["status"] == "RUNNING"
    job.report(execution, "FAILED", additionalMetrics={"attempt": 1})
    assert job.status(execution)["status"] == "RUNNING"
    job.report(execution, "FAILED", errorMessage="Whoever has a key and knows of no attempts means the current one.")
    assert job.status(execution)["errorMessage"].startswith("Whoever")


def test_a_webhook_that_nobody_vouches_for_is_refused(acme: Api, rival: Api, job: Job):
    execution = job.execute()
    body = {"executionId": execution, "status": "FAILED", "errorMessage": "x"}
    assert acme.client.post(f"/api/svc/api{job.path}/completion", json=body).status_code == 401
    assert rival.call("POST", f"{job.path}/completion", json=body).status_code == 404
    assert acme.call("POST", f"{job.path}/completion", json=body | {"executionId": "unknown"}).status_code == 404
    assert job.status(execution)["status"] == "PENDING"


def test_logs_are_lines_of_the_driver_by_level_and_count(acme: Api, job: Job):
    execution = job.execute()
    path = f"{job.path}/executions/{execution}/logs"
    assert acme.get(path) == {"logs": []}
    events = [
        {"timestamp": f"t{n}", "level": level, "event": f"event {n}"} for n, level in enumerate(["info", "error"])
    ]
    text = "".join(json.dumps(event) + "\n" for event in events)
    store_text(acme.settings, log_key(acme.organization_id, execution, 1), text)
    assert [line.split()[1] for line in acme.get(path)["logs"]] == ["INFO", "ERROR"]
    assert len(acme.get(path, level="error")["logs"]) == 1
    assert len(acme.get(path, tail=1)["logs"]) == 1
    assert acme.get(path, podType="executor") == {"logs": []}


def test_both_spellings_of_a_project_path_are_the_same_operation(acme: Api, job: Job):
    execution = job.execute()
    dataset = job.complete(execution, ROWS)
    short = f"/projects/{job.project_id}/jobs/{job.id}"
    for path in ("", f"/executions/{execution}/status", "/executions", f"/datasets/{dataset}/schema"):
        assert acme.get(short + path) == acme.get(job.path + path)
    assert acme.get(f"/projects/{job.project_id}/jobs") == acme.get(f"/projects/id/{job.project_id}/jobs")


def test_an_agents_code_is_its_pipeline_in_another_field(acme: Api):
    agent = acme.post("/agents", {"name": "coded", "code": PIPELINE.replace("\n", "\r\n")})
    assert agent["pipelineYaml"] == agent["code"] != ""
    python = acme.post("/agents", {"name": "python", "code": "print('hello')\n"})
    assert (python["pipelineYaml"], python["code"]) == (None, "print('hello')\n")


def test_put_merges_and_ignores_fields_of_the_server(acme: Api, job: Job):
    before = acme.get(job.path)
    changed = acme.put(
        job.path, before | {"description": "new", "agentId": None, "id": "x", "taskIds": ["1"], "odd": 1}
    )
    assert changed == before | {"description": "new", "updatedAt": changed["updatedAt"]}
    agent = acme.get("/agents/none/" + job.agent_id)
    assert agent in acme.get("/agents/none")
    assert acme.get(f"/agents/none/name/{agent['name']}") == agent
    renamed = acme.put(f"/agents/none/{job.agent_id}", agent | {"name": "renamed"})
    assert (renamed["name"], renamed["pipelineYaml"]) == ("renamed", agent["pipelineYaml"])


def test_progress_has_one_shape_whatever_is_reported(job: Job):
    execution = job.execute()
    nothing = {
        "fraction": 0.0,
        "startSeconds": 0.0,
        "stages": [],
        "checks": [],
        "requests": [],
        "model": None,
        "failedPages": [],
    }
    assert job.status(execution)["progress"] == nothing
    stage = {
        "key": "s01_fetch",
        "title": "fetch",
        "state": "RUNNING",
        "rows": 1,
        "pages": 2,
        "errors": 0,
        "seconds": 0.5,
    }
    shown = stage | {"selectors": [], "warnings": []}
    reports = [
        ({"fraction": 0.5, "stages": [stage | {"odd": 1}], "more": "x"}, [shown | {"odd": 1}]),
        ({"fraction": "half"}, []),
        ({"stages": [{"title": "without a key"}]}, []),
        ({"stages": [stage], "startSeconds": 2.5}, [shown]),
    ]
    for progress, stages in reports:
        job.report(execution, "RUNNING", additionalMetrics={"progress": progress})
        expected = nothing | (progress | {"stages": stages} if stages else {})
        assert job.status(execution)["progress"] == expected


def test_an_empty_text_clears_an_optional_id_time_or_schedule(acme: Api, job: Job):
    project = f"/projects/id/{job.project_id}"
    category = acme.post("/categories", {"name": "clears"})["id"]
    credential = acme.post("/cloud-credentials", {"provider": "AZURE"})["id"]
    dataset = job.complete(job.execute(), ROWS)
    at = "2030-01-01T00:00:00Z"
    references = {"agentId": job.agent_id, "cloudCredentialId": credential, "inputDatasetId": dataset}
    task = acme.post(f"{job.path}/tasks", {"name": "cleared", "botId": "", "scheduledTime": ""})
    assert (task["botId"], task["scheduledTime"]) == (None, None)
    cases = [
        (project, {"cronSchedule": "0 6 * * *"}),
        (job.path, references | {"scheduledTime": at}),
        (f"{job.path}/tasks/{task['id']}", {"botId": "b", "scheduledTime": at}),
    ]
    for path, values in cases:
        assert acme.put(path, values).items() >= values.items()
        assert acme.put(path, dict.fromkeys(values, None)).items() >= values.items()
        assert acme.put(path, dict.fromkeys(values, "")).items() >= dict.fromkeys(values, None).items()
    moved = acme.put(f"/agents/none/{job.agent_id}", {"categoryId": category, "codeTypeId": "yaml"})
    assert (moved["categoryId"], moved["codeTypeId"]) == (category, "yaml")
    moved = acme.put(f"/agents/{category}/{job.agent_id}", {"categoryId": "", "codeTypeId": ""})
    assert (moved["categoryId"], moved["codeTypeId"]) == (None, None)
    created = acme.post(f"{project}/jobs", {"name": "empty form", "scheduledTime": ""} | dict.fromkeys(references, ""))
    assert created.items() >= dict.fromkeys([*references, "scheduledTime"], None).items()
    wrong = acme.call("PUT", job.path, json={"scheduledTime": "soon"})
    assert (wrong.status_code, wrong.json()["details"][0]["path"]) == (400, "scheduledTime")


def test_reading_by_name_and_by_category(acme: Api):
    category = acme.post("/categories", {"name": "by name"})["id"]
    agent = acme.post("/agents", {"name": "the agent", "categoryId": category, "pipelineYaml": PIPELINE})
    assert acme.get(f"/agents/{category}") == [agent]
    assert acme.get(f"/agents/{category}/name/the agent") == agent
    assert acme.get(f"/agents/{category}/{agent['id']}") == agent
    assert acme.call("GET", f"/agents/none/{agent['id']}").status_code == 404
    assert agent["id"] not in [each["id"] for each in acme.get("/agents/none")]
    assert acme.get("/categories/by name")["agentIds"] == [agent["id"]]
    project = acme.post("/projects", {"name": "named project"})
    assert acme.get("/projects/named project") == acme.get(f"/projects/id/{project['id']}") == project


def test_names_with_a_slash_are_read_by_their_encoded_name(acme: Api):
    for name in ("A/B", "slash/jobs", "a%2Fb/c"):
        created = acme.post("/projects", {"name": name})["id"]
        assert acme.get(f"/projects/{quote(name, safe='')}")["id"] == created
    assert acme.call("GET", "/projects/A%2FC").status_code == 404
    assert acme.call("GET", "/projects/A/B").status_code == 404


def test_a_task_is_queried_by_the_rows_that_its_own_execution_published(acme: Api, job: Job):
    first = job.execute()
    job.complete(first, ROWS)
    job.complete(job.execute(), ROWS.slice(0, 1))
    names, schema = ["output", "dataset"], acme.get("/datasets/query/tables")
    table = next(each for each in schema if each["datasetId"] == acme.get(job.path)["outputDatasetId"])
    names += [table["name"], f"{table['schema']}.{table['name']}"]
    older, newer = acme.get(job.path)["taskIds"]
    for task, count in ((older, 2), (newer, 1)):
        for name in names:
            body = {"sql": f"SELECT count(*) AS n FROM {name}"}
            assert acme.post(f"/datasets/query/task/{task}", body) == {"results": [{"n": count}]}, name
        assert acme.get(f"/datasets/query/task/{task}/info")["rowCount"] == count
    assert acme.post("/datasets/query", {"sql": f"SELECT count(*) AS n FROM {names[-1]}"}) == {"results": [{"n": 1}]}


def test_lists_come_page_by_page_when_asked(server: Server):
    api = server.caller("a pager", "admin")
    names = [f"page {n}" for n in range(5)]
    for name in names:
        api.project(name)
    path, seen = "/api/svc/api/projects?limit=2", []
    while path:
        response = api.call("GET", path)
        seen += [project["name"] for project in response.json()]
        path = response.links.get("next", {}).get("url")
    assert seen == names == [project["name"] for project in api.get("/projects")]


@pytest.mark.parametrize("body", [None, {}, {"arguments": ["--fast"], "cloudCredentialIds": [], "jobType": "x"}])
def test_execute_takes_any_body_or_none(job: Job, body: Any):
    assert job.execute(body)


def test_parameters_limit_is_checked(acme: Api, job: Job):
    wrong = acme.call("POST", f"{job.path}/execute", json={"parameters": {"limit": "many"}})
    assert wrong.status_code == 400
    assert wrong.json()["details"][0]["path"] == "parameters.limit"
