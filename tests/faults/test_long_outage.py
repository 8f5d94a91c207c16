"""The database is away for five minutes: executions that run then complete in their first attempt."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import select

from core.tables import Execution
from tests.support.postgres import cluster
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until
from tests.support.site import serve_gated_site

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
OUTAGE_SECONDS, SHORTER = 300, 20
# what an outage of 300 s outlasts by default is outlasted by one of 15 s
SHORT = {
    "SPINDLE_HEARTBEAT_SECONDS": "0.5",
    "SPINDLE_LOST_AFTER_SECONDS": str(60 / SHORTER),
    "SPINDLE_HUNG_AFTER_SECONDS": str(600 / SHORTER),
}
PIPELINE = """\
spindle: {{timeout: 900}}
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""
EACH = 3  # executions that end while the database is away, and after it is back


@pytest.mark.gate
def test_executions_outlive_an_outage_that_is_longer_than_the_silence_of_lost_drivers(tmp_path: Path) -> None:
    outlive_outage(tmp_path, OUTAGE_SECONDS / SHORTER, SHORT)


@pytest.mark.variant
def test_executions_outlive_an_outage_of_five_minutes(tmp_path: Path) -> None:
    outlive_outage(tmp_path, OUTAGE_SECONDS, {})


def outlive_outage(folder: Path, seconds: float, settings: Mapping[str, str]) -> None:
    drivers = {"SPINDLE_LOCAL_DRIVERS": str(2 * EACH)}  # all are at work when the database goes
    with cluster() as server, serve_gated_site() as first, serve_gated_site() as second:
        service = Service(folder / "data", {"SPINDLE_DATABASE_URL": server.url, **drivers, **settings}).start()
        try:
            jobs = [service.make_job(PIPELINE.format(url=site.url)) for site in (first, second)]
            accepted = [service.execute(job) for job in jobs for _ in range(EACH)]
            wait_until(lambda: {*read_states(service, jobs)} == {("RUNNING", 1)}, PATIENCE_SECONDS, every=POLL_SECONDS)
            server.stop()
            time.sleep(seconds / 3)
            first.open()
            time.sleep(2 * seconds / 3)
            server.start()
            second.open()
            wait_until(
                lambda: read_states(service, jobs) == [("COMPLETED", 1)] * len(accepted),
                2 * PATIENCE_SECONDS,
                every=POLL_SECONDS,
            )
            for each in accepted:
                wait_until(
                    lambda each=each: [run["status"] for run in service.runs(each)] == ["SUCCESS"],
                    PATIENCE_SECONDS,
                    every=POLL_SECONDS,
                )
        finally:
            service.stop()


def read_states(service: Service, jobs: list[Job]) -> list[tuple[str, int]]:
    """Return the states of the executions, with the number of their attempts."""
    of_jobs = Execution.job_id.in_([each.job_id for each in jobs])
    with service.database() as database, database.read() as session:
        return [*session.execute(select(Execution.state, Execution.attempt).where(of_jobs)).tuples()]
