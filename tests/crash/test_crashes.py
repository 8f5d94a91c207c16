"""Each process is killed during an execution, which still ends, once, and releases its slot."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from core.tables import DatasetVersion, Execution, Project
from tests.support.service import PATIENCE_SECONDS, Job, Service, wait_until
from tests.support.site import GatedSite

LOST_AFTER_SECONDS = 25
QUICK = {"SPINDLE_LOST_AFTER_SECONDS": str(LOST_AFTER_SECONDS), "SPINDLE_HEARTBEAT_SECONDS": "1"}

PARTS = (
    "api",
    "orchestration.launcher",
    "orchestration.code_server",
    "orchestration.run_server",
    "dagster-daemon",
    "dagster-webserver",
)

PIPELINE = """\
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: wgetJoin, args: ["ul li a"]}}
  - {{stage: extract, args: [{{selector: h1, method: text, as: title}}]}}
"""


@pytest.fixture(scope="module")
def crashing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An instance that declares drivers lost after 25 s."""
    service = Service(tmp_path_factory.mktemp("crash") / "data", QUICK).start()
    yield service
    assert service.stop() == 0


@pytest.fixture
def job(crashing: Service, site: GatedSite) -> Job:
    return crashing.make_job(PIPELINE.format(url=site.url))


@pytest.mark.long
def test_an_execution_survives_the_loss_of_each_process(crashing: Service, site: GatedSite, job: Job) -> None:
    execution = crashing.execute(job)
    site.wait_for_visitor()
    for module in PARTS:
        kill(crashing, module)
    site.open()
    assert_completed_once(crashing, job, execution)
    wait_until(lambda: all(crashing.pid(module) for module in PARTS), PATIENCE_SECONDS)


@pytest.mark.long
def test_an_accepted_execution_is_launched_after_restarts(crashing: Service, site: GatedSite, job: Job) -> None:
    site.open()
    execution = crashing.execute(job)
    for module in PARTS:
        kill(crashing, module)
    assert_completed_once(crashing, job, execution)


@pytest.mark.long
def test_a_driver_completes_without_its_run(crashing: Service, site: GatedSite, job: Job) -> None:
    execution = crashing.execute(job)
    site.wait_for_visitor()
    os.kill(run_worker(crashing, execution), signal.SIGKILL)
    site.open()
    assert_completed_once(crashing, job, execution)
    wait_until(lambda: crashing.runs(execution)[0]["status"] == "FAILURE", PATIENCE_SECONDS)


@pytest.mark.long
def test_a_killed_driver_fails_its_execution(service: Service, site: GatedSite) -> None:
    job = service.make_job(PIPELINE.format(url=site.url))
    execution = service.execute(job)
    site.wait_for_visitor()
    os.kill(driver(service, execution), signal.SIGKILL)
    status = service.wait(job, execution, seconds=PATIENCE_SECONDS)
    assert (status["status"], "The driver ended" in status["errorMessage"]) == ("FAILED", True)
    assert_nothing_published(service, execution)


@pytest.mark.long
def test_run_and_driver_killed_together(crashing: Service, site: GatedSite, job: Job) -> None:
    execution = crashing.execute(job)
    site.wait_for_visitor()
    for pid in (run_worker(crashing, execution), driver(crashing, execution)):
        os.kill(pid, signal.SIGKILL)
    status = crashing.wait(job, execution, seconds=LOST_AFTER_SECONDS + PATIENCE_SECONDS)
    assert (status["status"], "lost its driver" in status["errorMessage"]) == ("FAILED", True)
    assert_nothing_published(crashing, execution)


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


def run_worker(service: Service, execution_id: str) -> int:
    run = service.runs(execution_id)[0]["runId"]
    return int((service.data / "dagster" / "runs" / run).read_text())


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
