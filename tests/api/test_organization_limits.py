"""Limits of an organization over REST: who reads and sets them, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from core.infra.database import open_database
from core.lifecycle.executions.reconcile import admit_waiting
from tests.api.test_prometheus import read_samples
from tests.api.test_stored_queries import QUERIES, submit, wait
from tests.support.api import ROWS, Api, Server, read_code
from tests.support.trino import ENDLESS

CSV = b"title,price\nkettle,19.5\nmug,\n"


@pytest.fixture(scope="module")
def operator(server: Server) -> Api:
    return server.caller("operators of limits", "super_admin", "admin")


@pytest.fixture
def tenant(server: Server, operator: Api, request: pytest.FixtureRequest) -> Iterator[Api]:
    tenant = server.caller(request.node.name)
    yield tenant
    set_limits(operator, tenant)


def set_limits(operator: Api, tenant: Api, **limits: int | None) -> Any:
    return operator.put(f"/organizations/{tenant.organization_id}/limits", limits)


def test_operators_set_them_and_an_organization_reads_its_own(
    server: Server, operator: Api, tenant: Api, rival: Api
) -> None:
    path = f"/organizations/{tenant.organization_id}/limits"
    unlimited = {"limit": None, "used": 0}
    names = ("executionsAtOnce", "executionsADay", "storageBytes", "queriesAtOnce")
    assert {name: tenant.get(path)[name] for name in names} == dict.fromkeys(names, unlimited)
    changed = set_limits(operator, tenant, executionsAtOnce=3, storageBytes=5000)
    assert changed["executionsAtOnce"] == {"limit": 3, "used": 0}
    tenant.job("limited").execute()
    found = tenant.get(path)
    assert [found[name] for name in names] == [
        {"limit": 3, "used": 1},
        {"limit": None, "used": 1},
        {"limit": 5000, "used": 0},
        unlimited,
    ]
    assert found["nextDay"].endswith("T00:00:00Z")
    for caller in (tenant, server.caller(tenant.organization_id, "admin")):
        assert read_code(caller.call("PUT", path, json={})) == (403, "missing-scope")
    for method in ("GET", "PUT"):
        caller = operator if method == "PUT" else rival
        other = "/organizations/unknown/limits" if method == "PUT" else path
        assert read_code(caller.call(method, other, json={})) == (404, "not-found")
    assert operator.get(path) == found
    for wrong in (-1, 2.5, "3", 10**7):
        assert operator.call("PUT", path, json={"executionsADay": wrong}).status_code == 400
    samples = read_samples(operator)
    slug = operator.get("/auth/organizations")
    label = next(each["slug"] for each in slug if each["id"] == tenant.organization_id)
    assert samples["spindle_organization_limit", "executions_at_once", label] == 3
    assert samples["spindle_organization_used", "executions_at_once", label] == 1
    set_limits(operator, tenant)
    assert ("spindle_organization_limit", "executions_at_once", label) not in read_samples(operator)


def test_executions_wait_or_are_refused(operator: Api, tenant: Api) -> None:
    job = tenant.job("waits")
    set_limits(operator, tenant, executionsAtOnce=1, executionsADay=2)
    first = job.execute()
    assert job.status(first)["waitsFor"] == []
    assert read_code(tenant.call("POST", f"{job.path}/execute")) == (429, "execution-limit")
    waiting = tenant.post(f"{job.path}/execute?queue=true")["executionId"]
    assert job.status(waiting)["state"] == "QUEUED"
    assert job.status(waiting)["waitsFor"] == ["organization"]
    refused = tenant.call("POST", f"{job.path}/execute?queue=true")
    assert read_code(refused) == (429, "daily-limit")
    assert 0 < int(refused.headers["Retry-After"]) <= 86_401
    job.complete(first, ROWS)
    database = open_database(tenant.settings)
    admit_waiting(database)  # as the launcher does
    database.close()
    assert job.status(waiting)["state"] == "PENDING"


def test_files_count_until_their_versions_are_removed(operator: Api, tenant: Api) -> None:
    job = tenant.job("stores")
    dataset = job.complete(job.execute(), ROWS)
    job.complete(job.execute(), ROWS)
    files = {"file": ("goods.csv", CSV)}
    made = tenant.call("POST", "/datasets/upload", files=files, data={"name": "goods"}).json()
    path = f"/organizations/{tenant.organization_id}/limits"
    stored = tenant.get(path)["storageBytes"]["used"]
    size = made["sizeBytes"]
    assert stored == 2 * 1234 + size
    set_limits(operator, tenant, storageBytes=stored + size - 1)
    again = {"datasetId": made["id"], "name": "goods"}
    assert read_code(tenant.call("POST", "/datasets/upload", files=files, data=again)) == (409, "storage-limit")
    set_limits(operator, tenant, storageBytes=stored)
    assert read_code(tenant.call("POST", f"{job.path}/execute?queue=true")) == (409, "storage-limit")
    tenant.put(f"/datasets/{dataset}/retention", {"versions": 1})
    assert tenant.get(path)["storageBytes"]["used"] == stored - 1234
    tenant.post(f"/datasets/{made['id']}/versions/1/restore")
    tenant.put(f"/datasets/{made['id']}/retention", {"versions": 1})  # the restored one has the first one's file
    assert tenant.get(path)["storageBytes"]["used"] == stored - 1234
    tenant.call("DELETE", f"/datasets/{made['id']}")
    assert tenant.get(path)["storageBytes"]["used"] == 1234
    job.execute()


def test_queries_are_refused_and_those_in_the_background_wait(operator: Api, tenant: Api) -> None:
    set_limits(operator, tenant, queriesAtOnce=1)
    endless = submit(tenant, ENDLESS)
    wait(tenant, endless, "RUNNING")
    waiting = submit(tenant, "SELECT 1 AS one")
    answer = tenant.call("POST", "/datasets/query", json={"sql": "SELECT 1 AS one"})
    assert read_code(answer) == (429, "concurrency-limit")
    assert tenant.post("/datasets/query", {"sql": "SHOW SCHEMAS"})["results"] == []
    assert tenant.get(f"{QUERIES}/{waiting}")["status"] == "PENDING"
    tenant.call("DELETE", f"{QUERIES}/{endless}")
    assert wait(tenant, waiting, "COMPLETED")["rowCount"] == 1
    assert tenant.post("/datasets/query", {"sql": "SELECT 2 AS two"})["results"] == [{"two": 2}]
    assert tenant.get(f"/organizations/{tenant.organization_id}/limits")["queriesAtOnce"] == {"limit": 1, "used": 0}
