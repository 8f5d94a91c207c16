"""After outages, locks and kills, Dagster's runs and executions agree: one run of an attempt, with its end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest
from sqlalchemy import text

from tests.support.postgres import Cluster
from tests.support.service import PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until
from tests.support.site import Site

pytestmark = pytest.mark.long

AWAY_SECONDS = 15
LOCKED_SECONDS = 7
PIPELINE = """\
fetch: {{url: "{url}/"}}
pipeline:
  - {{stage: wgetJoin, args: ["li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""
LOCK = "LOCK TABLE jobs, executions, dagster.runs, dagster.event_logs IN ACCESS EXCLUSIVE MODE"


def stop_database(_service: Service, cluster: Cluster) -> None:
    cluster.stop()
    time.sleep(AWAY_SECONDS)
    cluster.start_again()


def lock_tables(service: Service, _cluster: Cluster) -> None:
    with service.database() as database, database.write() as session:
        session.execute(text(LOCK))
        time.sleep(LOCKED_SECONDS)


def kill_launcher(service: Service, _cluster: Cluster) -> None:
    pid = service.pid("orchestration.launcher")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("disturb", [stop_database, lock_tables, kill_launcher])
def test_runs_end_as_their_executions(
    disturb: Callable[[Service, Cluster], None], on_postgresql: tuple[Service, Cluster], web: Site
) -> None:
    service, cluster = on_postgresql
    job = make_job(service, web)
    executions = [service.execute(job) for _ in range(2)]
    wait_until(lambda: web.requests["/1"] >= len(executions), PATIENCE_SECONDS)
    executions += [service.execute(job) for _ in range(2)]  # whose runs are being made
    disturb(service, cluster)
    web.hold(())
    statuses = [service.wait(job, each)["status"] for each in executions]
    assert statuses == ["COMPLETED"] * len(executions)
    for each in executions:
        wait_until(lambda each=each: list_states(service, each) == ["SUCCESS"], PATIENCE_SECONDS, every=POLL_SECONDS)


def test_an_outage_is_two_lines_of_the_daemon(on_postgresql: tuple[Service, Cluster]) -> None:
    service, cluster = on_postgresql
    log = service.data / "spindle.log"
    before = log.stat().st_size
    stop_database(service, cluster)

    def read_lines() -> list[str]:
        with log.open() as file:
            file.seek(before)
            return [line for line in file if "daemon" in line.split("|")[0]]

    wait_until(lambda: any("answers again after" in line for line in read_lines()), PATIENCE_SECONDS)
    assert len(read_lines()) < 10, read_lines()


def make_job(service: Service, site: Site) -> Job:
    site.serve({"/": "<li><a href=/1>page</a></li>", "/1": "<h1>Page</h1>"})
    site.hold({"/1"})
    return service.make_job(PIPELINE.format(url=site.url))


def list_states(service: Service, execution_id: str) -> list[str]:
    """Ask the UI, whose connections from before the outage may end with an error each."""
    try:
        return [run["status"] for run in service.runs(execution_id)]
    except AssertionError:
        return []
