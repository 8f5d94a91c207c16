"""All processes of an instance are killed at once, and it starts again on the same data folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from dagster import DagsterInstance
from dagster._core.scheduler.instigation import ScheduleInstigatorData
from sqlalchemy import func, select, update

from core.infra.database import execute_update
from core.lifecycle.executions.transitions import MAX_CONCURRENT_EXECUTIONS
from core.tables import DatasetVersion, Execution, Project, Schedule, ScheduleTick, TickJob
from tests.support.crashes import kill_everything, list_victims
from tests.support.processes import list_processes_of
from tests.support.service import GATED_CRAWL, PATIENCE_SECONDS, Job, Service, wait_until
from tests.support.site import GatedSite

pytestmark = pytest.mark.long

FREE_SLOTS = 2
LEAD_SECONDS = 10  # from the kill to the tick, at least


@pytest.mark.gate
def test_everything_is_killed_and_starts_again(expendable: Service, site: GatedSite) -> None:
    service = expendable
    job = service.make_job(GATED_CRAWL.format(url=site.url))
    take_slots(service, job, MAX_CONCURRENT_EXECUTIONS - FREE_SLOTS)
    running = [service.execute(job) for _ in range(FREE_SLOTS)]
    queued = [service.post(f"{job.path}/execute?queue=true", {})["executionId"] for _ in range(2)]
    for execution in running:
        service.wait(job, execution, "RUNNING")
    site.wait_for_visitor()
    scheduled, ticks = make_schedule(service, service.get(job.path)["agentId"])
    kill_everything(service)
    wait_until(lambda: not list_processes_of(service.data), PATIENCE_SECONDS)
    site.open()
    rewind_schedule(service, scheduled, ticks[0])
    service.start()
    assert_all_went_on(service, job, running, queued)
    assert_fired_once(service, scheduled, ticks)
    wait_until(lambda: not [each for each in list_victims(service) if each.owner], PATIENCE_SECONDS)


def take_slots(service: Service, job: Job, number: int) -> None:
    """Take slots of the project as if so many other executions were running, which need no Spark then."""
    with service.database() as database, database.write() as session:
        project = update(Project).where(Project.id == job.project_id)
        execute_update(session, project.values(active_executions=Project.active_executions + number))


def make_schedule(service: Service, agent: str) -> tuple[Job, list[datetime]]:
    """A project whose only job was due before its schedule was made, and is due again soon after the kill."""
    project = service.post("/projects", {"name": "scheduled"})["id"]
    job = Job(project, service.post(f"/projects/id/{project}/jobs", {"name": "rows", "agentId": agent})["id"])
    second = (datetime.now(UTC) + timedelta(seconds=60 + LEAD_SECONDS)).replace(second=0, microsecond=0)
    ticks = [second - timedelta(minutes=2), second]
    cron = f"{ticks[0].minute},{ticks[1].minute} * * * *"
    with service.client() as client:
        body = {"cronSchedule": cron, "timezone": "UTC", "overlap": "queue", "missed": "all"}
        client.put(f"/projects/id/{project}/schedule", json=body).raise_for_status()
    return job, ticks


def rewind_schedule(service: Service, job: Job, at: datetime) -> None:
    """Let neither the database nor Dagster have handled the tick at this time, as if the instance had been away."""
    with service.database() as database, database.write() as session:
        changed = update(Schedule).where(Schedule.project_id == job.project_id).values(next_tick_at=at)
        execute_update(session, changed)
    with DagsterInstance.from_config(str(service.data / "dagster")) as instance:
        for state in instance.all_instigator_state():
            assert isinstance(state.instigator_data, ScheduleInstigatorData)
            data = ScheduleInstigatorData(state.instigator_data.cron_schedule, at.timestamp() - 1)
            instance.update_instigator_state(state.with_data(data))


def assert_all_went_on(service: Service, job: Job, running: list[str], queued: list[str]) -> None:
    """Those that ran begin another attempt, which counts for no retry."""
    for execution in (*running, *queued):
        assert service.wait(job, execution, seconds=300)["status"] == "COMPLETED"
        record = service.get(f"{job.path}/executions/{execution}")
        assert (record["attempt"], record["retries"]) == (2 if execution in running else 1, 0)
    wait_until(lambda: count_slots(service, job) == MAX_CONCURRENT_EXECUTIONS - FREE_SLOTS, PATIENCE_SECONDS)
    with service.database() as database, database.read() as session:
        query = select(DatasetVersion.execution_id).where(DatasetVersion.execution_id.in_([*running, *queued]))
        assert sorted(map(str, session.scalars(query))) == sorted([*running, *queued])


def assert_fired_once(service: Service, job: Job, ticks: list[datetime]) -> None:
    """Each tick has one execution, the missed one too; both end well."""
    for tick in ticks:
        left = (tick - datetime.now(UTC)).total_seconds()
        wait_until(partial(find_executions, service, job, tick), max(left, 0) + PATIENCE_SECONDS)
    executions = [execution for tick in ticks for execution in find_executions(service, job, tick)]
    assert len(executions) == len(ticks)
    for execution in executions:
        assert service.wait(job, execution, seconds=300)["status"] == "COMPLETED"
    with service.database() as database, database.read() as session:
        assert session.scalar(select(func.count()).where(Execution.job_id == job.job_id)) == len(ticks)
    wait_until(lambda: count_slots(service, job) == 0, PATIENCE_SECONDS)


def find_executions(service: Service, job: Job, tick_at: datetime) -> list[str]:
    query = select(TickJob.execution_id).join(ScheduleTick, ScheduleTick.id == TickJob.tick_id)
    due = (TickJob.job_id == job.job_id, ScheduleTick.tick_at == tick_at, TickJob.execution_id.is_not(None))
    with service.database() as database, database.read() as session:
        return [str(execution) for execution in session.scalars(query.where(*due))]


def count_slots(service: Service, job: Job) -> int:
    with service.database() as database, database.read() as session:
        return session.get_one(Project, job.project_id).active_executions
