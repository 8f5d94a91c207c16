"""Backfills on a real service whose processes are killed, and readers that count while partitions are replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tests.support.crashes import kill, list_victims, pick
from tests.support.days import DaySite, count_meanwhile, count_rows, finish_backfill, serve_days
from tests.support.libraries import needs_libraries
from tests.support.service import PATIENCE_SECONDS, Service, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
DAYS = 30
FORMATS = [
    "parquet",
    pytest.param("delta", marks=needs_libraries),
    pytest.param("iceberg", marks=[needs_libraries, pytest.mark.variant]),
]


@pytest.fixture
def site() -> Iterator[DaySite]:
    with serve_days() as site:
        yield site


def kill_one(service: Service, kind: str) -> None:
    """Kill a process of a kind, for which to wait; of drivers one with an execution."""
    wait_until(
        lambda: (victim := pick(Random(0), list_victims(service), kind)) and kill(victim.pid),
        PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("format_", FORMATS)
def test_a_month_is_backfilled_once_though_processes_are_killed(
    expendable: Service, site: DaySite, format_: str
) -> None:
    job = site.make_job(expendable, format_)
    site.broken = {"2026-06-07"}
    backfill = expendable.post(f"{job.path}/backfills", {"from": "2026-06"})["id"]
    for done, kind in ((1, "driver"), (3, "launcher"), (8, "daemon"), (12, "launcher"), (16, "driver")):
        wait_until(lambda least=done: len(site.requests) >= least, 2 * PATIENCE_SECONDS)
        kill_one(expendable, kind)
    found = finish_backfill(expendable, job, backfill)
    assert (found["state"], found["counts"]) == ("FAILED", {"COMPLETED": DAYS - 1, "FAILED": 1})
    executions = expendable.get(f"{job.path}/executions?limit=100")
    assert Counter(each["partition"] for each in executions) == Counter(each["key"] for each in found["partitions"])
    assert count_rows(expendable, job) == {day: 3 for day in site.requests}
    (failed,) = expendable.get(f"{job.path}/partitions?state=failed")
    assert (failed["key"], failed["rows"], "404" in failed["errorMessage"]) == ("2026-06-07", None, True)
    site.broken.clear()
    again = expendable.post(f"{job.path}/backfills", {"only": "failed"})
    assert finish_backfill(expendable, job, again["id"])["counts"] == {"COMPLETED": 1}
    assert count_rows(expendable, job) == {f"2026-06-{day:02}": 3 for day in range(1, DAYS + 1)}


def test_readers_see_a_partition_before_or_after(expendable: Service, site: DaySite) -> None:
    job = site.make_job(expendable)
    first = expendable.post(f"{job.path}/backfills", {"to": "2026-06-10"})["id"]
    assert finish_backfill(expendable, job, first)["state"] == "COMPLETED"
    site.rows = 7
    with count_meanwhile(expendable, job) as seen:
        second = expendable.post(f"{job.path}/backfills", {"to": "2026-06-10"})["id"]
        assert finish_backfill(expendable, job, second)["state"] == "COMPLETED"
    assert len(seen) > 3
    assert all(len(each) == 10 and {*each.values()} <= {3, 7} for each in seen)
    assert {*count_rows(expendable, job).values()} == {7}
