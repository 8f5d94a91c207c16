"""Requests that make a record, sent twice with one `Idempotency-Key`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import update

from core.tables import IdempotencyRecord
from tests.api.world import FUNCTION
from tests.support.api import PIPELINE, Api, Job, Server, open_session, read_code

CSV = b"title,price\nkettle,19.5\n"


# POSTs that make no record: they read, check, end something or are repeated safely by themselves
OTHERS = {
    "stop_job", "reset_job", "stop_task", "cancel_execution", "cancel_backfill",
    "mark_zombie_tasks", "process_pipeline_text", "validate_extension", "check_agent_pipeline",
    "complete_agent_pipeline", "try_agent_pipeline",
    "propose_agent_selectors", "generate_extension_code", "test_credential",
    "test_webhook", "test_rule", "complete_job", "readmit_person",
    # the same file again changes nothing
    "upload_plugin", "upload_version", "enable_plugin", "disable_plugin", "enable_installation", "disable_installation",
    "reload_installations", "estimate_training_cost",
    "query_country", "list_images",
}  # fmt: skip


def post(api: Api, path: str, key: str, body: Any) -> httpx.Response:
    return api.call("POST", path, json=body, headers={"Idempotency-Key": key})


def upload(api: Api, key: str, content: bytes, boundary: str, name: str = "goods") -> httpx.Response:
    lines = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="name"\r\n\r\n{name}\r\n',
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="goods.csv"\r\n\r\n',
    )
    form = "".join(lines).encode() + content + f"\r\n--{boundary}--\r\n".encode()
    headers = {"Idempotency-Key": key, "Content-Type": f"multipart/form-data; boundary={boundary}"}
    return api.call("POST", "/datasets/upload", content=form, headers=headers)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/projects", {"name": "once"}),
        ("/agents", {"name": "once", "pipelineYaml": PIPELINE}),
        ("/categories", {"name": "once"}),
        ("/datasets", {"name": "once"}),
        ("/cloud-credentials", {"name": "once", "provider": "OPENAI", "apiKey": "sk-1"}),
        ("/auth/api-keys", {"name": "once", "scopes": ["etl:read"]}),
        ("/apply", {"projects": [{"name": "declared"}]}),
        ("/api/svc/cloud/scheduler/cronjobs", {"name": "once", "schedule": "@daily", "webhookUrl": "https://a.org/"}),
        ("/api/api/cms-tables/once", {"title": "kettle"}),
        ("{job}/../../jobs", {"name": "another"}),
        ("{job}/tasks", {"name": "once"}),
        ("{job}/../../webhooks", {"url": "https://example.com/"}),
        ("/agents/{agent}/python-extensions", FUNCTION),
        ("/ean-image-sourcing/once/schedule", {"cronSchedule": "0 3 * * *"}),
    ],
)
def test_a_repeated_request_makes_one_record(acme: Api, job: Job, path: str, body: dict[str, Any]) -> None:
    path = path.replace("{job}/../../", f"/projects/id/{job.project_id}/").format(job=job.path, agent=job.agent_id)
    key = str(uuid4())
    first = post(acme, path, key, body)
    assert first.is_success, first.text
    second = post(acme, path, key, body)
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert second.headers.get("etag") == first.headers.get("etag")
    assert second.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert read_code(post(acme, path, key, body | {"name": "other"})) == (409, "idempotency-key-reused")


@pytest.mark.long
def test_a_repeated_upload_makes_one_dataset_whatever_its_boundary(acme: Api) -> None:
    key = str(uuid4())
    first = upload(acme, key, CSV, "one")
    assert first.is_success, first.text
    for boundary in ("one", "another-boundary"):
        assert upload(acme, key, CSV, boundary).json() == first.json()
    assert read_code(upload(acme, key, CSV + b"mug,3\n", "one")) == (409, "idempotency-key-reused")
    assert read_code(upload(acme, key, CSV, "one", name="others")) == (409, "idempotency-key-reused")
    assert upload(acme, str(uuid4()), CSV, "one").json()["id"] != first.json()["id"]


@pytest.mark.long
def test_a_long_upload_counts_its_whole_file(acme: Api) -> None:
    key, content = str(uuid4()), CSV + b"x" * 300_000 + b",1\n" + b"y" * 300_000 + b",2\n"
    first = upload(acme, key, content, "one")
    assert first.is_success, first.text
    assert upload(acme, key, content, "b" * 60).json() == first.json()
    assert upload(acme, key, content.replace(b"xx", b"xz", 1), "one").status_code == 409


def test_a_failed_request_is_executed_when_it_is_repeated(acme: Api) -> None:
    key = str(uuid4())
    missing = {"name": "late", "agentId": str(uuid4())}
    project = acme.project(f"idempotent {key}")
    assert post(acme, f"/projects/id/{project}/jobs", key, missing).status_code in (400, 404)
    assert post(acme, f"/projects/id/{project}/jobs", key, {"name": "late"}).is_success


def test_requests_at_the_same_time_make_one_record(acme: Api) -> None:
    key = str(uuid4())
    with ThreadPoolExecutor(8) as pool:
        sent = [pool.submit(post, acme, "/datasets", key, {"name": f"d {key}"}) for _ in range(16)]
    answers = [each.result() for each in sent]
    made = [answer for answer in answers if answer.is_success]
    assert len({answer.json()["id"] for answer in made}) == 1
    refused = {read_code(answer) for answer in answers if not answer.is_success}
    assert refused <= {(409, "idempotency-key-unfinished")}
    assert post(acme, "/datasets", key, {"name": f"d {key}"}).json() == made[0].json()


def test_a_request_whose_first_sending_has_not_been_answered_is_refused(server: Server, acme: Api) -> None:
    key = str(uuid4())
    post(acme, "/datasets", key, {"name": f"d {key}"})
    with open_session(server.settings) as session:
        session.execute(update(IdempotencyRecord).values(answer=None, result_id=None))
    assert read_code(post(acme, "/datasets", key, {"name": f"d {key}"})) == (409, "idempotency-key-unfinished")
    assert read_code(upload(acme, key, CSV, "one")) == (409, "idempotency-key-unfinished")


def test_another_key_of_the_organization_does_not_read_the_answer(server: Server, acme: Api) -> None:
    key, body = str(uuid4()), {"name": "once", "scopes": ["etl:read"]}
    secret = post(acme, "/auth/api-keys", key, body).text
    other = server.caller(acme.organization_id, "admin")
    assert read_code(post(other, "/auth/api-keys", key, body)) == (409, "idempotency-key-reused")
    rival = server.caller(f"idempotent {key}", "admin")
    assert post(rival, "/auth/api-keys", key, body).text != secret


def test_a_key_of_an_execution_is_no_key_of_a_record(acme: Api, job: Job) -> None:
    key = str(uuid4())
    assert post(acme, f"{job.path}/execute", key, {}).is_success
    assert read_code(post(acme, "/datasets", key, {"name": f"d {key}"})) == (409, "idempotency-key-reused")
    key = str(uuid4())
    assert post(acme, "/datasets", key, {"name": f"d {key}"}).is_success
    assert read_code(post(acme, f"{job.path}/execute", key, {})) == (409, "idempotency-key-reused")


def test_each_operation_that_makes_a_record_takes_the_header(acme: Api) -> None:
    paths = acme.get("/api/openapi.json")["paths"]
    without = {
        operation["operationId"]
        for path in paths.values()
        for method, operation in path.items()
        if method == "post" and not any(each["name"] == "Idempotency-Key" for each in operation.get("parameters", ()))
    }
    assert without == OTHERS
