"""Metrics and costs over REST: the specified shapes, the same numbers everywhere, nobody else's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import httpx
import pytest

from api.app import create_app
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.infra.storage.protocol import log_key
from core.lifecycle.executions.repository import ExecutionRepository
from core.lifecycle.usage.overhead import add_overhead
from tests.support.api import Api, Job, Server, open_session, running
from tests.support.stored import store_text

START, END = "2026-03-10T12:00:00Z", "2026-03-10T13:00:00Z"
REPORT = {
    "startedAt": START,
    "completedAt": END,
    "durationSeconds": 3600,
    "recordsProcessed": 40,
    "totalCpuTimeSeconds": 43,
    "driverMemoryUsedBytes": 10**9,
    "executorMemoryUsedBytes": 2 * 10**9,
    "executorCount": 2,
    "metrics": {
        "driverCpuSeconds": 12.5,
        "executorCpuSeconds": 30.25,
        "memoryByteSeconds": 9 * 10**12,
        "bytesRead": 2_000_000_000,
        "bytesWritten": 1_000_000_001,
        "networkBytes": 500_000_000,
        "tasksCompleted": 8,
        "executorSeconds": 1801,
    },
}
AWS = {
    "cloud_provider": "aws",
    "cloud_region": "us-east-1",
    "driver_instance_type": "m5.large",
    "executor_instance_type": "m7g.large",
}
MARCH = {"startDate": "2026-03-01", "endDate": "2026-03-31"}


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that runs on machines that cost something."""
    settings = Settings(data=tmp_path_factory.mktemp("priced"), **AWS)  # type: ignore[arg-type]
    migrate(settings)
    with running(create_app(settings)) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield Server(client, settings)


@pytest.fixture(scope="module")
def payer(priced: Server) -> Api:
    return priced.caller("payer", "admin", "super_admin")


@pytest.fixture(scope="module")
def done(payer: Api) -> tuple[Job, str]:
    """A job with an execution that has ended."""
    job = payer.job("billed")
    execution = job.execute()
    job.report(execution, "COMPLETED", **REPORT)
    return job, execution


def paths(job: Job, rest: str) -> list[str]:
    return [f"/projects/{job.project_id}/jobs/{job.id}{rest}", f"{job.path}{rest}"]


def test_metrics_of_an_execution(done: tuple[Job, str]):
    job, execution = done
    for path in paths(job, f"/executions/{execution}/metrics"):
        assert job.api.get(path) == {
            "executionId": execution,
            "jobId": job.id,
            "metrics": {
                "infrastructure": {
                    "cpuSeconds": 42.75,
                    "memoryGbHours": 2.5,
                    "storageReadGb": 2.0,
                    "storageWriteGb": 1.000000001,
                    "networkTransferGb": 0.5,
                },
                "execution": {
                    "durationSeconds": 3600,
                    "tasksCompleted": 8,
                    "recordsProcessed": 40,
                    "dataVolumeGb": 3.500000001,
                },
                "costs": {
                    "computeCost": 0.136823,
                    "storageCost": 0.023,
                    "networkCost": 0.0,
                    "totalCost": 0.159823,
                    "currency": "USD",
                },
            },
            "cloudProvider": "aws",
            "region": "us-east-1",
        }


def test_costs_of_an_execution(done: tuple[Job, str]):
    job, execution = done
    for path in paths(job, f"/executions/{execution}/costs"):
        assert job.api.get(path) == {
            "executionId": execution,
            "costBreakdown": {
                "compute": {
                    "driver": {"instanceType": "m5.large", "count": 1, "hours": 1.0, "cost": 0.096},
                    "executors": {"instanceType": "m7g.large", "count": 2, "hours": 0.500278, "cost": 0.040823},
                },
                "storage": {"read": {"gb": 2.0, "cost": 0.0}, "write": {"gb": 1.000000001, "cost": 0.023}},
                "network": {"dataTransfer": {"gb": 0.5, "cost": 0.0}},
                "total": 0.159823,
                "currency": "USD",
            },
        }


def test_the_parts_add_up_in_all_endpoints(payer: Api):
    job = payer.job("adds up")
    executions = [job.execute() for _ in range(3)]
    for number, execution in enumerate(executions):
        job.report(execution, "COMPLETED", **(REPORT | {"durationSeconds": 1234 + 7 * number}))
    answers = [payer.get(f"{job.path}/executions/{execution}/costs")["costBreakdown"] for execution in executions]
    for answer in answers:
        assert sum(_costs(answer)) == _exact(answer["total"])
    totals = [_exact(answer["total"]) for answer in answers]
    measured = [payer.get(f"{job.path}/executions/{execution}/metrics")["metrics"]["costs"] for execution in executions]
    for each, total in zip(measured, totals, strict=True):
        assert sum(_exact(each[name]) for name in ("computeCost", "storageCost", "networkCost")) == total
        assert _exact(each["totalCost"]) == total
    for path in (f"{job.path}/metrics", f"/projects/{job.project_id}/metrics"):
        found = payer.get(path, **MARCH)
        assert _exact(found["summary"]["totalCost"]) == sum(totals)
        assert [_exact(line["totalCost"]) for line in found["breakdown"]] == [sum(totals)]
    whole = payer.get(f"/organizations/{payer.organization_id}/metrics", **MARCH)
    assert _exact(whole["summary"]["totalCost"]) == sum(_exact(line["totalCost"]) for line in whole["breakdown"])


def test_metrics_of_an_organization(done: tuple[Job, str], payer: Api):
    job, _ = done
    found = payer.get(f"/organizations/{payer.organization_id}/metrics", **MARCH)
    assert found["organizationId"] == payer.organization_id
    assert found["period"] == {"start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z"}
    assert found["currency"] == "USD"
    assert next(line for line in found["breakdown"] if line["id"] == job.project_id) == {
        "id": job.project_id,
        "name": "billed",
        "totalJobs": 1,
        "totalExecutions": 1,
        "totalCost": 0.159823,
        "totalCpuHours": 0.011875,
        "totalMemoryGbHours": 2.5,
        "totalDataProcessedGb": 3.500000001,
    }
    for group_by, expected in (("job", job.id), ("pipeline", job.agent_id), ("project", job.project_id)):
        found = payer.get(f"/organizations/{payer.organization_id}/metrics", **MARCH, groupBy=group_by)
        assert expected in [line["id"] for line in found["breakdown"]]
    assert found["overhead"] == {"startSeconds": 0.0, "idleSeconds": 0.0, "cost": 0.0}
    odd = {"startDate": "2026-03-10T12:59:59Z", "endDate": "2026-03-10T13:00:00.000001Z"}
    assert payer.get(f"{job.path}/metrics", **odd)["summary"]["totalExecutions"] == 1
    assert payer.get(f"{job.path}/metrics", startDate=START, endDate=END)["summary"]["totalExecutions"] == 0


def test_the_overhead_of_drivers_is_the_organizations_and_in_no_execution(payer: Api):
    path = f"/organizations/{payer.organization_id}/metrics"
    before = payer.get(path)
    with open_session(payer.settings) as session:
        for _ in range(2):
            add_overhead(session, payer.organization_id, start_ms=9_000, idle_ms=300_500)
    after = payer.get(path)
    assert after["overhead"] == {"startSeconds": 18.0, "idleSeconds": 601.0, "cost": 0.016506}
    assert after["summary"] == before["summary"]


@pytest.mark.parametrize(
    ("params", "path", "code"),
    [
        ({"startDate": "yesterday"}, "startDate", "invalid-period"),
        ({"endDate": "2026-02-30"}, "endDate", "invalid-period"),
        ({"startDate": "2026-03-02", "endDate": "2026-03-01"}, "startDate", "invalid-period"),
        ({"groupBy": "colour"}, "groupBy", "invalid-value"),
    ],
)
def test_invalid_periods_and_groups_are_refused(acme: Api, params: Mapping[str, str], path: str, code: str):
    response = acme.call("GET", f"/organizations/{acme.organization_id}/metrics", params=params)
    assert response.status_code == 400
    detail = response.json()["details"][0]
    assert (detail["path"], detail["code"]) == (path, code)


def test_who_sees_an_organization(server: Server, acme: Api, rival: Api, done: tuple[Job, str], payer: Api):
    path, period = f"/organizations/{acme.organization_id}/metrics", MARCH
    reader = server.caller(acme.organization_id, "etl:read")
    assert acme.call("GET", path, params=period).status_code == 200
    assert reader.call("GET", path).status_code == 403
    theirs, nobodys = (
        rival.call("GET", f"/organizations/{each}/metrics").json() | {"timestamp": None}
        for each in (acme.organization_id, "01990000-0000-7000-8000-000000000000")
    )
    assert theirs == nobodys
    assert theirs["code"] == 404
    everywhere = server.caller("operator", "super_admin")
    assert everywhere.call("GET", path, params=period).json() == acme.call("GET", path, params=period).json()
    assert everywhere.call("GET", "/organizations/nobody/metrics").status_code == 404
    assert everywhere.call("GET", "/organizations/%00/metrics").status_code == 404


def test_an_execution_that_has_not_ended(job: Job):
    execution = job.execute()
    path = f"{job.path}/executions/{execution}"
    before = job.api.get(f"{path}/metrics")["metrics"]
    assert set(before["infrastructure"].values()) == {0.0}
    report = {name: value for name, value in REPORT.items() if not name.endswith(("At", "Seconds"))}
    job.report(execution, "RUNNING", **report)
    assert job.api.get(f"{path}/metrics")["metrics"]["infrastructure"]["cpuSeconds"] == 42.75
    assert job.api.get(f"{path}/costs")["costBreakdown"]["total"] == 0
    assert job.api.get(f"{job.path}/metrics")["summary"]["totalExecutions"] == 0


def test_executors_on_other_machines_have_logs_of_their_own(job: Job):
    execution = job.execute()
    lines = ["of the driver", "[executor 0] 26/03/10 12:00:00 WARN first", "[executor 10] second", "[executor 0] third"]
    write_log(job, execution, "\n".join(lines))
    for path in paths(job, "/logs"):
        assert job.api.get(path)["logs"] == ["of the driver"]
        executors = [line.partition("] ")[2] for line in lines[1:]]
        assert job.api.get(path, podType="executor")["logs"] == executors
        assert job.api.get(path, podType="executor", executorIndex=0)["logs"] == [executors[0], executors[2]]
        assert job.api.get(path, podType="executor", executorIndex=0, level="warn")["logs"] == [
            executors[0],
            executors[2],
        ]
        assert job.api.get(path, podType="executor", executorIndex="none")["logs"] == []


def test_the_log_of_a_job_is_that_of_its_newest_execution(job: Job):
    assert job.api.get(f"{job.path}/logs") == {"logs": []}
    first, second = job.execute(), job.execute()
    for execution in (first, second):
        write_log(job, execution, f"2026-03-10 of {execution}\n26/03/10 12:00:00 ERROR it broke\n")
    for path in paths(job, "/logs"):
        shown = job.api.get(path, executorIndex=0, podName="driver-0")["logs"]
        assert shown == [f"2026-03-10 of {second}", "26/03/10 12:00:00 ERROR it broke"]
    assert job.api.get(f"{job.path}/logs", level="error", tail=1)["logs"] == ["26/03/10 12:00:00 ERROR it broke"]
    assert job.api.get(f"{job.path}/logs", podType="executor")["logs"] == []
    task = job.api.get(job.path)["taskIds"][0]
    assert job.api.get(f"{job.path}/logs", taskId=task, tail=2)["logs"][0] == f"2026-03-10 of {first}"
    assert job.api.call("GET", f"{job.path}/logs", params={"taskId": "999999999"}).status_code == 404
    assert job.api.call("GET", f"{job.path}/logs", params={"tail": -1}).status_code == 400


def write_log(job: Job, execution: str, text: str) -> None:
    api = job.api
    with open_session(api.settings) as session:
        stored = ExecutionRepository(session, api.organization_id).get(job.project_id, job.id, execution)
        key = log_key(api.organization_id, execution, stored.attempt)
    store_text(api.settings, key, text)


def _exact(number: float) -> Decimal:
    return Decimal(str(number))


def _costs(part: Any) -> Iterator[Decimal]:
    """Every `cost` of a breakdown, however deep."""
    for name, value in part.items():
        if name == "cost":
            yield _exact(value)
        elif isinstance(value, dict):
            yield from _costs(value)
