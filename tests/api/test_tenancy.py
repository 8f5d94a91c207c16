"""Another organization's ids are answered exactly like ids that do not exist, by every operation there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.api.conftest import PIPELINE, ROWS, Api
from tests.api.operations import OPERATIONS, Operation

UNKNOWN = "01990000-0000-7000-8000-000000000000"
ADDRESSED = [operation for operation in OPERATIONS if operation.addresses_records]


@pytest.fixture(scope="module")
def foreign(rival: Api) -> Mapping[str, str]:
    """Ids and names of the rival's records, under the names that paths and bodies use."""
    category = rival.post("/categories", {"name": "rival category"})["id"]
    job = rival.job("rival project")
    rival.put(f"/agents/none/{job.agent_id}", {"categoryId": category})
    finished, execution = job.execute(), job.execute()
    dataset = job.complete(finished, ROWS)
    return {
        "projectId": job.project_id,
        "jobId": job.id,
        "agentId": job.agent_id,
        "categoryId": category,
        "executionId": execution,
        "datasetId": dataset,
        "taskId": rival.get(job.path)["taskIds"][0],
        "credentialId": rival.post("/cloud-credentials", {"provider": "OPENAI", "apiKey": "theirs"})["id"],
        "keyId": rival.get("/auth/api-keys")[0]["id"],
        "recordId": rival.post("/api/api/cms-tables/products", {"title": "theirs"})["id"],
        "table": "products",
        "projectName": "rival project",
        "categoryName": "rival category",
        "agentName": "rival project",
    }


@pytest.mark.parametrize("operation", ADDRESSED, ids=str)
def test_another_organizations_ids_are_unknown_ids(acme: Api, foreign: Mapping[str, str], operation: Operation):
    unknown = {name: "999999999" if name == "taskId" else UNKNOWN for name in foreign}
    theirs, nobodys = (_answer(acme, operation, ids) for ids in (foreign, unknown))
    assert theirs == nobodys
    assert theirs[0] == 404, theirs


@pytest.mark.parametrize("operation", ADDRESSED, ids=str)
def test_another_organizations_job_in_ones_own_project_is_unknown(
    acme: Api, foreign: Mapping[str, str], operation: Operation
):
    if "jobId" not in operation.path_parameters:
        pytest.skip("the operation addresses no job")
    own = acme.post("/projects", {"name": str(operation)})["id"]
    assert _answer(acme, operation, foreign | {"projectId": own})[0] == 404


def test_a_body_that_refers_to_another_organizations_records_is_refused_like_unknown_ones(
    acme: Api, foreign: Mapping[str, str]
):
    project = acme.project("refers to others")
    for field, foreign_id in (("agentId", foreign["agentId"]), ("inputDatasetId", foreign["datasetId"])):
        bodies = [{"name": "x", field: each} for each in (foreign_id, UNKNOWN)]
        answers = [_plain(acme.call("POST", f"/projects/id/{project}/jobs", json=body)) for body in bodies]
        assert answers[0] == answers[1]
        assert answers[0][0] == 400
    agents = [
        _plain(acme.call("POST", "/agents", json={"name": "x", "categoryId": each, "pipelineYaml": PIPELINE}))
        for each in (foreign["categoryId"], UNKNOWN)
    ]
    assert agents[0] == agents[1]
    assert agents[0][0] == 400


def test_lists_and_tables_hold_nothing_of_another_organization(acme: Api, foreign: Mapping[str, str]):
    for path in ("/projects", "/categories", "/agents", "/datasets", "/datasets/query/tables"):
        text = acme.call("GET", path).text
        assert not [name for name, value in foreign.items() if len(value) == 36 and value in text]
        assert "rival" not in text
    query = acme.call("POST", "/datasets/query", json={"sql": "SELECT * FROM rival_project.rival_project"})
    assert query.status_code == 400


def test_the_rivals_records_are_untouched(rival: Api, foreign: Mapping[str, str]):
    job = rival.get(f"/projects/id/{foreign['projectId']}/jobs/{foreign['jobId']}")
    assert job["name"] == "rival project"
    status = rival.get(f"/projects/id/{job['projectId']}/jobs/{job['id']}/executions/{foreign['executionId']}/status")
    assert status["status"] == "PENDING"


def _answer(api: Api, operation: Operation, ids: Mapping[str, str]) -> tuple[Any, ...]:
    path = operation.path.format_map(ids)
    return _plain(api.call(operation.method, path, json=operation.body(ids), params=operation.query))


def _plain(response: httpx.Response) -> tuple[Any, ...]:
    body = response.json()
    return response.status_code, {name: value for name, value in body.items() if name != "timestamp"}
