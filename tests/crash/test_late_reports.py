"""Reports of drivers that come late, twice, in another order, without an answer, or from a driver given up as lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any, get_args

import psutil
import pytest
from sqlalchemy import select

from core.tables import DatasetVersion, Execution, ExecutionEvent, Project
from tests.crash.conftest import LOST_AFTER_SECONDS
from tests.support.processes import descendants, running
from tests.support.proxy import Fault, ReportProxy
from tests.support.service import GATED_CRAWL, PATIENCE_SECONDS, Job, Service, wait_until
from tests.support.site import GatedSite

pytestmark = pytest.mark.long


@pytest.mark.gate
def test_late_reports_change_nothing(expendable: Service, reports: ReportProxy, site: GatedSite) -> None:
    site.open()
    assert_faults_change_nothing(expendable, reports, site)
    assert_a_lost_driver_is_refused(expendable, reports, site)


def assert_faults_change_nothing(service: Service, proxy: ReportProxy, site: GatedSite) -> None:
    """However the reports of an execution arrive, its end and its events are those of an undisturbed one."""
    faults: Sequence[Fault] = get_args(Fault)
    undisturbed, *disturbed = jobs = [
        service.make_job(GATED_CRAWL.format(url=site.url)) for _ in range(len(faults) + 1)
    ]
    proxy.faults |= {job.job_id: fault for job, fault in zip(disturbed, faults, strict=True)}
    executions = {job: service.execute(job) for job in jobs}
    for job, execution in executions.items():
        status = service.wait(job, execution, seconds=300)
        assert status["status"] == "COMPLETED", (proxy.faults.get(job.job_id), status)
    wait_until(lambda: not list((service.data / "drivers").iterdir()), PATIENCE_SECONDS)
    ends = {job: describe_end(service, job, execution) for job, execution in executions.items()}
    assert ends[undisturbed]["slots"] == 0
    for job in disturbed:
        sent = [(report["status"], answer) for report, answer in proxy.reports if report["jobId"] == job.job_id]
        assert all(answer == 200 for _, answer in sent), sent
        assert ends[job] == ends[undisturbed], (proxy.faults[job.job_id], sent)


def describe_end(service: Service, job: Job, execution_id: str) -> dict[str, Any]:
    """The state of an execution, its published rows, its changes of state, and the slots that are taken.

    Without RUNNING, which a driver whose first reports come after its end never was.
    """
    with service.database() as database, database.read() as session:
        execution = session.get_one(Execution, execution_id)
        versions = session.scalars(select(DatasetVersion).where(DatasetVersion.execution_id == execution_id)).all()
        events = select(ExecutionEvent.data).where(ExecutionEvent.execution_id == execution_id)
        changes = session.scalars(events.where(ExecutionEvent.kind == "state").order_by(ExecutionEvent.id)).all()
        return {
            "state": execution.state,
            "attempt": execution.attempt,
            "rows": [version.row_count for version in versions],
            "changes": [change["state"] for change in changes if change["state"] != "RUNNING"],
            "slots": session.get_one(Project, job.project_id).active_executions,
        }


def assert_a_lost_driver_is_refused(service: Service, proxy: ReportProxy, site: GatedSite) -> None:
    """A driver that has written its output is given up as lost, and its report arrives after its successor's end.

    Its pidfile is moved away, as if it ran on a machine that the service cannot reach any more.
    """
    job = service.make_job(GATED_CRAWL.format(url=site.url))
    proxy.held.add(job.job_id)
    execution = service.execute(job)
    assert proxy.holds.wait(PATIENCE_SECONDS)
    proxy.held.clear()
    pidfile = next((service.data / "drivers").glob(f"*.{execution}.1"))
    leader = int(pidfile.read_text())
    family = [leader, *descendants(leader)]
    try:
        pidfile.rename(service.data / "moved-pidfile")
        signal_all(family, signal.SIGSTOP)
        assert service.wait(job, execution, seconds=LOST_AFTER_SECONDS + PATIENCE_SECONDS)["status"] == "FAILED"
        service.post(f"{job.path}/executions/{execution}/retry", {})
        assert service.wait(job, execution, seconds=PATIENCE_SECONDS)["status"] == "COMPLETED"
        successor = describe_output(service, execution)
        assert (len(successor), "/2/" in f"{successor[0]}/") == (1, True), successor
        before = len(proxy.reports)
        proxy.release.set()
        wait_until(lambda: ("COMPLETED", 1) in list_ends(proxy, before), PATIENCE_SECONDS)
    finally:
        proxy.release.set()
        signal_all(running(family), signal.SIGKILL)
    assert describe_output(service, execution) == successor
    end = describe_end(service, job, execution)
    assert (end["state"], end["attempt"], end["slots"]) == ("COMPLETED", 2, 0)


def list_ends(proxy: ReportProxy, begin: int) -> list[tuple[str, int]]:
    """The states and attempts that the answered reports since `begin` tell."""
    return [(report["status"], report["additionalMetrics"]["attempt"]) for report, _ in proxy.reports[begin:]]


def describe_output(service: Service, execution_id: str) -> list[str]:
    with service.database() as database, database.read() as session:
        query = select(DatasetVersion).where(DatasetVersion.execution_id == execution_id)
        return [location for version in session.scalars(query) for location in version.locations]


def signal_all(pids: Sequence[int] | set[int], number: signal.Signals) -> None:
    for pid in pids:
        if psutil.pid_exists(pid):
            os.kill(pid, number)
