"""What lies in a PRIVATE category is its creator's and the admins': to other keys it is as if it were not there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.world import FUNCTION
from tests.support.api import PIPELINE, Api, Server

Ids = dict[str, str]
OPERATIONS: list[tuple[str, str, Any]] = [
    ("GET", "/categories/id/{category}", None),
    ("PUT", "/categories/id/{category}", {"description": "x"}),
    ("DELETE", "/categories/id/{category}", None),
    ("GET", "/agents/{category}", None),
    ("GET", "/agents/{category}/{agent}", None),
    ("GET", "/agents/{category}/name/Hidden", None),
    ("PUT", "/agents/{category}/{agent}", {"description": "x"}),
    ("DELETE", "/agents/{agent}", None),
    ("POST", "/agents", {"name": "Mine", "categoryId": "{category}"}),
    ("PUT", "/agents/none/{mine}", {"categoryId": "{category}"}),
    ("GET", "/agents/{agent}/python-extensions", None),
    ("POST", "/agents/{agent}/python-extensions", {"function": FUNCTION["function"]}),
    ("POST", "/python-extensions/register", {"agentId": "{agent}", "function": FUNCTION["function"]}),
    ("GET", "/python-extensions/{extension}", None),
    ("PUT", "/python-extensions/{extension}", {"name": "x"}),
    ("DELETE", "/python-extensions/{extension}", None),
    ("POST", "/python-extensions/{extension}/generate-pyspark", None),
    ("POST", "/projects/id/{project}/jobs", {"name": "Taken", "agentId": "{agent}"}),
    ("PUT", "/projects/id/{project}/jobs/{job}", {"agentId": "{agent}"}),
]


@pytest.fixture(scope="module")
def owner(server: Server, acme: Api) -> Api:
    return server.caller(acme.organization_id, "etl:read", "etl:write")


@pytest.fixture(scope="module")
def other(server: Server, acme: Api) -> Api:
    return server.caller(acme.organization_id, "etl:read", "etl:write", "etl:execute")


@pytest.fixture(scope="module")
def ids(owner: Api, other: Api) -> Ids:
    category = owner.post("/categories", {"name": "Owner's alone", "visibility": "PRIVATE"})["id"]
    agent = owner.post("/agents", {"name": "Hidden", "categoryId": category, "pipelineYaml": PIPELINE})["id"]
    extension = owner.post(f"/agents/{agent}/python-extensions", FUNCTION)["id"]
    job = other.job("Another's")
    own = {"mine": job.agent_id, "project": job.project_id, "job": job.id}
    return {"category": category, "agent": agent, "extension": extension, **own}


def answer(api: Api, method: str, path: str, body: Any, ids: Ids) -> tuple[int, Any]:
    filled = body and {name: value.format_map(ids) for name, value in body.items()}
    response = api.call(method, path.format_map(ids), json=filled)
    return response.status_code, response.json() | {"timestamp": None}


@pytest.mark.parametrize(("method", "path", "body"), OPERATIONS, ids=[f"{each[0]} {each[1]}" for each in OPERATIONS])
def test_another_key_is_answered_as_if_there_were_none(other: Api, ids: Ids, method: str, path: str, body: Any):
    unknown = ids | {"category": "unknown", "agent": "unknown", "extension": "unknown"}
    status, told = answer(other, method, path, body, ids)
    assert status in (400, 404)
    assert (status, told) == answer(other, method, path, body, unknown)


def test_its_owner_and_an_admin_see_it_and_another_key_does_not(owner: Api, other: Api, acme: Api, ids: Ids):
    listed = [ids["agent"] in [agent["id"] for agent in api.get("/agents")] for api in (owner, acme, other)]
    assert listed == [True, True, False]
    assert owner.get(f"/agents/{ids['category']}/name/Hidden") == acme.get(f"/agents/{ids['category']}/{ids['agent']}")


def test_a_job_keeps_its_agent_when_another_key_changes_the_job(owner: Api, other: Api, acme: Api, ids: Ids):
    """It is sent back whole, agentId and all, and the agent's text is still nobody else's."""
    jobs = f"/projects/id/{ids['project']}/jobs"
    for api in (owner, acme):
        job = api.post(jobs, {"name": "Owner's", "agentId": ids["agent"]})
        assert other.put(f"{jobs}/{job['id']}", {"agentId": job["agentId"], "enabled": True})["agentId"] == ids["agent"]
        assert api.put(f"{jobs}/{job['id']}", {"agentId": ids["mine"]})["agentId"] == ids["mine"]
        assert other.call("PUT", f"{jobs}/{job['id']}", json={"agentId": ids["agent"]}).status_code == 400
        assert api.put(f"{jobs}/{job['id']}", {"agentId": ids["agent"]})["agentId"] == ids["agent"]
    assert other.post(f"{jobs}/{job['id']}/execute")["executionId"]
