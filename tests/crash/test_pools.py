"""A place in a pool is handed on between projects, also past a killed launcher."""

from __future__ import annotations

import pytest

from tests.crash.test_crashes import assert_completed_once, kill
from tests.support.service import GATED_CRAWL, Service
from tests.support.site import GatedSite

pytestmark = pytest.mark.long


def test_executions_of_two_projects_follow_each_other(expendable: Service, site: GatedSite) -> None:
    service = expendable
    service.post("/pools", {"name": "shop-host", "limit": 1})
    jobs = [service.make_job(GATED_CRAWL.format(url=site.url)) for _ in range(2)]
    with service.client() as client:
        for job in jobs:
            assert client.put(job.path, json={"pools": ["shop-host"]}).is_success
    first, second = (service.post(f"{job.path}/execute?queue=true", {})["executionId"] for job in jobs)
    site.wait_for_visitor()
    waiting = service.get(f"{jobs[1].path}/executions/{second}")
    assert (waiting["state"], waiting["waitsFor"]) == ("QUEUED", ["pool shop-host"])
    kill(service, "orchestration.launcher")
    site.open()
    for job, execution in zip(jobs, (first, second), strict=True):
        assert_completed_once(service, job, execution)
    ended, begun = service.get(f"{jobs[0].path}/executions/{first}"), service.get(f"{jobs[1].path}/executions/{second}")
    assert begun["startedAt"] > ended["completedAt"]
    (run,) = service.runs(second)
    assert {"key": "spindle.pool/shop-host", "value": ""} in run["tags"]
