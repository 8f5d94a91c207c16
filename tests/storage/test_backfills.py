"""Partitions of tables in a bucket: a backfill whose processes are killed, and replaced under a reader."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.crashes import kill, list_victims, pick
from tests.support.days import count_meanwhile, count_rows, finish_backfill, serve_days
from tests.support.libraries import needs_libraries
from tests.support.service import PATIENCE_SECONDS, Service, wait_until

pytestmark = [pytest.mark.long, needs_libraries, pytest.mark.timeout(1800)]
DAYS = [f"2026-06-0{day}" for day in range(1, 7)]


@pytest.mark.parametrize("format_", ["delta", pytest.param("iceberg", marks=pytest.mark.variant)])
def test_days_are_made_once_and_replaced_whole_in_a_bucket(on_s3: Service, format_: str) -> None:
    with serve_days() as site:
        job, days = site.make_job(on_s3, format_), {"from": DAYS[0], "to": DAYS[-1]}
        first = on_s3.post(f"{job.path}/backfills", days)["id"]
        for done, kind in ((1, "driver"), (3, "launcher")):
            wait_until(lambda least=done: len(site.requests) >= least, 2 * PATIENCE_SECONDS)
            wait_until(
                lambda kind=kind: (victim := pick(Random(0), list_victims(on_s3), kind)) and kill(victim.pid),
                PATIENCE_SECONDS,
            )
        assert finish_backfill(on_s3, job, first)["counts"] == {"COMPLETED": len(DAYS)}
        assert sorted(each["partition"] for each in on_s3.get(f"{job.path}/executions")) == DAYS
        site.rows = 7
        with count_meanwhile(on_s3, job) as seen:
            second = on_s3.post(f"{job.path}/backfills", days)["id"]
            assert finish_backfill(on_s3, job, second)["state"] == "COMPLETED"
        assert all([*sorted(each)] == DAYS and {*each.values()} <= {3, 7} for each in seen)
        assert any({*each.values()} == {3, 7} for each in seen)
        assert count_rows(on_s3, job) == dict.fromkeys(DAYS, 7)
