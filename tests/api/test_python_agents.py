"""Agents whose Python computes its pipeline: few codes run at once, and everything else stays quick meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from core.definitions.agents.python_code import RUNS
from tests.support.api import Api, Job
from tests.support.service import PATIENCE_SECONDS, wait_until

COMPUTES = 'import sys\npipeline = Pipeline.of(stages=[stage("wget", f"http://{[*sys.argv, 0][1]}/")])\n'


def write(api: Api, code: str) -> httpx.Response:
    return api.call("POST", "/agents", json={"name": "computes", "code": code})


def read_refusal(answer: httpx.Response) -> tuple[int, str, str]:
    return answer.status_code, answer.headers["Retry-After"], answer.json()["details"][0]["code"]


def test_codes_that_never_end_leave_room_for_all_other_requests(
    acme: Api, rival: Api, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme.put(f"/agents/none/{job.agent_id}", {"code": COMPUTES})
    monkeypatch.setattr("pipelines.transforms.script_run._SECONDS", 4.0)
    with ThreadPoolExecutor(RUNS.total) as pool:
        owners = [api for api in (acme, rival) for _ in range(RUNS.per_caller)]
        running = [pool.submit(write, api, "while True: pass") for api in owners]
        wait_until(lambda: RUNS._running.total() == RUNS.total, PATIENCE_SECONDS)
        executed = acme.call("POST", f"{job.path}/execute", json={"arguments": ["toys"]})
        refusals = [read_refusal(each) for each in (write(acme, COMPUTES), write(rival, COMPUTES), executed)]
        for _ in range(3):
            assert acme.client.get("/livez").status_code == acme.call("GET", "/agents").status_code == 200
        assert RUNS._running.total() == RUNS.total, "they still run"
        stored = [each.result().json() for each in running]
    assert refusals == [(429, "10", "concurrency-limit")] * 3
    assert all("it was stopped: it took longer" in each["warnings"][0] for each in stored)
    execution = acme.post(f"{job.path}/execute", {"arguments": ["toys"]})["executionId"]
    assert job.status(execution)["status"] != "FAILED"
