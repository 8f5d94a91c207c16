"""Each process is killed during an execution, which still ends, once, and releases its slot."""

from __future__ import annotations

import os
import signal

import pytest
from sqlalchemy import func, select

from core.tables import DatasetVersion, Execution, Project
from tests.support.service import GATED_CRAWL, PATIENCE_SECONDS, POLL_SECONDS, Job, Service, wait_until
from tests.support.site import GatedSite

PARTS = (
    "api",
    "orchestration.launcher",
    "orchestration.code_server",
    "dagster-daemon",
    "dagster-webserver",
)


@pytest.fixture
def job(expendable: Service, site: GatedSite) -> Job:
    return expendable.make_job(GATED_CRAWL.format(url=site.url))


@pytest.mark.long
def test_an_execution_survives_the_loss_of_each_process(expendable: Service, site: GatedSite, job: Job) -> None:
    execution = expendable.execute(job)
    site.wait_for_visitor()
    for module in PARTS:
        kill(expendable, module)
    site.open()
    assert_completed_once(expendable, job, execution)
    wait_until(lambda: all(expendable.pid(module) for module in PARTS), PATIENCE_SECONDS)


@pytest.mark.long
def test_an_accepted_execution_is_launched_after_restarts(expendable: Service, site: GatedSite, job: Job) -> None:
    site.open()
    execution = expendable.execute(job)
    for module in PARTS:
        kill(expendable, module)
    assert_completed_once(expendable, job, execution)


@pytest.mark.long
def test_a_run_is_shown_to_its_end_after_the_loss_of_the_launcher(
    expendable: Service, site: GatedSite, job: Job
) -> None:
    execution = expendable.execute(job)
    site.wait_for_visitor()
    kill(expendable, "orchestration.launcher")
    site.open()
    assert_completed_once(expendable, job, execution)
    wait_until(lambda: expendable.runs(execution)[0]["status"] == "SUCCESS", PATIENCE_SECONDS, every=POLL_SECONDS)
    assert len(expendable.runs(execution)) == 1


@pytest.mark.long
def test_a_killed_driver_fails_its_execution(expendable: Service, site: GatedSite, job: Job) -> None:
    execution = expendable.execute(job)
    site.wait_for_visitor()
    os.kill(driver(expendable, execution), signal.SIGKILL)
    status = expendable.wait(job, execution, seconds=PATIENCE_SECONDS)
    assert (status["status"], "The driver ended" in status["errorMessage"]) == ("FAILED", True)
    assert_nothing_published(expendable, execution)


@pytest.mark.long
def test_launcher_and_driver_killed_together(expendable: Service, site: GatedSite, job: Job) -> None:
    execution = expendable.execute(job)
    site.wait_for_visitor()
    kill(expendable, "orchestration.launcher")
    os.kill(driver(expendable, execution), signal.SIGKILL)
    site.open()
    assert_completed_once(expendable, job, execution)
    assert expendable.get(f"{job.path}/executions/{execution}")["attempt"] == 2


def kill(service: Service, module: str) -> None:
    wait_until(lambda: _killed(service.pid(module)), PATIENCE_SECONDS)


def _killed(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended, and is restarted
        return False
    return True


def driver(service: Service, execution_id: str) -> int:
    return int(next((service.data / "drivers").glob(f"*.{execution_id}.1")).read_text())


def assert_completed_once(service: Service, job: Job, execution_id: str) -> None:
    status = service.wait(job, execution_id, seconds=200)
    assert status["status"] == "COMPLETED", status
    assert (versions(service, execution_id), slots(service, job)) == (1, 0)


def assert_nothing_published(service: Service, execution_id: str) -> None:
    assert versions(service, execution_id) == 0
    with service.database() as database, database.read() as session:
        project = session.get_one(Project, session.get_one(Execution, execution_id).project_id)
        assert project.active_executions == 0


def versions(service: Service, execution_id: str) -> int:
    published = select(func.count()).where(DatasetVersion.execution_id == execution_id)
    with service.database() as database, database.read() as session:
        return session.scalar(published) or 0


def slots(service: Service, job: Job) -> int:
    with service.database() as database, database.read() as session:
        return session.get_one(Project, job.project_id).active_executions
