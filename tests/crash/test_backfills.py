"""Backfills on a real service whose launcher is killed, and readers that count while partitions are replaced."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.days import DaySite, serve_days
from tests.support.service import PATIENCE_SECONDS, Job, Json, Service, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
DAYS = 30
MONTH = {"by": "day", "start": "2026-06-01", "end": "2026-06-30", "parameter": "DAY", "timezone": "Europe/Rome"}


@pytest.fixture
def site() -> Iterator[DaySite]:
    with serve_days() as site:
        yield site


def make_job(service: Service, site: DaySite) -> Job:
    job = service.make_job(site.pipeline)
    with service.client() as client:
        assert client.put(job.path, json={"partitions": MONTH}).is_success
    return job


def finish(service: Service, job: Job, backfill: str) -> Json:
    def ask() -> Json:
        return service.get(f"{job.path}/backfills/{backfill}")

    wait_until(lambda: ask()["state"] != "RUNNING", 2 * PATIENCE_SECONDS, every=0.5)
    return ask()


def count_rows(service: Service, job: Job) -> dict[str, int]:
    dataset = service.get(f"/datasets/{service.get(job.path)['outputDatasetId']}")
    table = f"{dataset['schema']}.{dataset['tableName']}"
    answer = service.post("/datasets/query", {"sql": f"SELECT day, count(*) AS n FROM {table} GROUP BY day"})
    return {row["day"]: int(row["n"]) for row in answer["results"]}


def test_a_month_is_backfilled_once_though_the_launcher_is_killed(expendable: Service, site: DaySite) -> None:
    job = make_job(expendable, site)
    site.broken = {"2026-06-07"}
    backfill = expendable.post(f"{job.path}/backfills", {"from": "2026-06"})["id"]
    for done in (3, 12):
        wait_until(lambda least=done: len(site.requests) >= least, PATIENCE_SECONDS)
        launcher = expendable.pid("orchestration.launcher")
        assert launcher is not None
        os.kill(launcher, signal.SIGKILL)
    found = finish(expendable, job, backfill)
    assert (found["state"], found["counts"]) == ("FAILED", {"COMPLETED": DAYS - 1, "FAILED": 1})
    executions = expendable.get(f"{job.path}/executions")
    assert Counter(each["partition"] for each in executions) == Counter(each["key"] for each in found["partitions"])
    assert count_rows(expendable, job) == {day: 3 for day in site.requests}
    (failed,) = expendable.get(f"{job.path}/partitions?state=failed")
    assert (failed["key"], failed["rows"], "404" in failed["errorMessage"]) == ("2026-06-07", None, True)
    site.broken.clear()
    again = expendable.post(f"{job.path}/backfills", {"only": "failed"})
    assert finish(expendable, job, again["id"])["counts"] == {"COMPLETED": 1}
    assert len(count_rows(expendable, job)) == DAYS


def test_readers_see_a_partition_before_or_after(expendable: Service, site: DaySite) -> None:
    job = make_job(expendable, site)
    first = expendable.post(f"{job.path}/backfills", {"to": "2026-06-10"})["id"]
    assert finish(expendable, job, first)["state"] == "COMPLETED"
    site.rows, seen, over = 7, list[dict[str, Any]](), threading.Event()

    def read() -> None:
        while not over.is_set():
            seen.append(count_rows(expendable, job))

    reader = threading.Thread(target=read)
    reader.start()
    second = expendable.post(f"{job.path}/backfills", {"to": "2026-06-10"})["id"]
    try:
        assert finish(expendable, job, second)["state"] == "COMPLETED"
    finally:
        over.set()
        reader.join()
    assert len(seen) > 3
    assert all(len(each) == 10 and {*each.values()} <= {3, 7} for each in seen)
    assert {*count_rows(expendable, job).values()} == {7}
