"""Pools over REST, and what a waiting execution shows."""

from __future__ import annotations

from tests.support.api import Api, Job, read_code


def test_a_pool_is_made_read_changed_and_deleted(acme: Api, job: Job):
    made = acme.post("/pools", {"name": "shop-host", "limit": 1})
    assert made in acme.get("/pools")
    assert acme.get("/pools/shop-host") == made
    taken = acme.call("POST", "/pools", json={"name": "shop-host", "limit": 2})
    assert read_code(taken) == (409, "name-taken")
    for wrong in ({"name": "a b", "limit": 1}, {"name": "none", "limit": 0}, {"name": "none"}):
        assert acme.call("POST", "/pools", json=wrong).status_code == 400
    unknown = acme.call("PUT", job.path, json={"pools": ["shop-hots"]})
    assert (unknown.status_code, unknown.json()["details"][0]["path"]) == (400, "pools")
    assert acme.put(job.path, {"pools": ["shop-host"]})["pools"] == ["shop-host"]
    assert acme.call("DELETE", "/pools/shop-host").json()["details"][0]["code"] == "pool-in-use"
    tag = acme.call("GET", "/pools/shop-host").headers["ETag"]
    holder = job.execute()
    assert acme.call("PUT", "/pools/shop-host", json={"limit": 1}, headers={"If-Match": tag}).status_code == 200
    refused = acme.call("POST", f"{job.path}/execute")
    assert read_code(refused) == (429, "pool-limit")
    assert int(refused.headers["Retry-After"]) > 0
    waiting = acme.call("POST", f"{job.path}/execute?queue=true").json()
    assert waiting["message"] == "The execution waits for a slot of its project and a place in its pools: shop-host."
    status = acme.get(f"{job.path}/executions/{waiting['executionId']}/status")
    assert (status["status"], status["state"], status["waitsFor"]) == ("PENDING", "QUEUED", ["pool shop-host"])
    assert [(each["waitsFor"], each["pools"]) for each in acme.get(f"{job.path}/executions")] == [
        (["pool shop-host"], ["shop-host"]),
        ([], ["shop-host"]),
    ]
    acme.post(f"{job.path}/executions/{holder}/cancel")
    acme.put(job.path, {"pools": []})
    assert acme.call("DELETE", "/pools/shop-host").json() == {}
    assert acme.call("PUT", "/pools/shop-host", json={"limit": 2}).status_code == 404
