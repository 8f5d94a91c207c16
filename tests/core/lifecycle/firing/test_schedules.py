"""Ticks: each fires once, whoever asks and however the clock goes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from core.definitions.identity.limits import LimitsUpdate, change_limits
from core.definitions.schedules import service as schedules
from core.definitions.schedules.models import ScheduleCreate
from core.errors import Unavailable
from core.infra.database import Database
from core.infra.settings import Settings
from core.lifecycle.executions.reports import cancel
from core.lifecycle.executions.transitions import MAX_CONCURRENT_EXECUTIONS
from core.lifecycle.firing import waiting
from core.lifecycle.firing.schedules import GRACE, LATE, fire, fire_overdue
from core.lifecycle.submission.planning import PlannedExecution
from core.tables import Dataset, Execution, Job, Schedule, TickJob
from tests.core.lifecycle.firing.conftest import MONDAY, Timed
from tests.support.shop import PIPELINE

HOUR = timedelta(hours=1)


def test_a_tick_is_one_execution_per_enabled_job(timed: Timed) -> None:
    timed.add_job("Off", enabled=False)
    timed.set(
        parameters={"CITY": "Rome"},
        execution_request_json='{"limit": 7, "publish": false, "parameters": {"CITY": "Oslo"}}',
    )
    tick = timed.fire(MONDAY)
    assert (tick.state, tick.reason) == ("FIRED", None)
    (execution,) = timed.executions()
    assert (execution.trigger, execution.tick_at, execution.row_limit) == ("schedule", MONDAY, 7)
    assert not execution.publishes
    assert timed.outcomes() == [(0, "FIRED", {"Books": "SUBMITTED"})]
    assert timed.ticks()[0].jobs[0].execution_id == execution.id
    assert timed.fire(MONDAY) == tick
    assert len(timed.executions()) == 1


def test_schedules_of_one_project_fire_their_own_jobs(timed: Timed) -> None:
    other = timed.add_job("Prices")
    timed.set(job_id=timed.shop.job_id, overlap="allow")
    with timed.shop.database.write() as session:
        new = ScheduleCreate(name="hourly", cron_schedule="0 * * * *", job_id=other, parameters={"DEPTH": 2})
        state = schedules.create(session, timed.caller, timed.shop.project_id, new).value
        state.schedule.next_tick_at = MONDAY
    timed.rewind()
    assert len(fire_overdue(timed.shop.database, timed.shop.settings, MONDAY + GRACE)) == 2
    assert [(each.job_id, each.schedule_name, each.tick_at) for each in timed.executions()] == [
        (timed.shop.job_id, None, MONDAY),
        (other, "hourly", MONDAY),
    ]
    assert timed.outcomes() == [(0, "FIRED", {"Books": "SUBMITTED"})]
    with timed.shop.database.write() as session:
        schedules.delete(session, timed.caller, timed.shop.project_id, "hourly", ())
    timed.sync()
    assert fire_overdue(timed.shop.database, timed.shop.settings, MONDAY + HOUR + GRACE)[-1].tick_at == MONDAY + HOUR
    assert len(timed.executions()) == 3


def test_what_waits_when_its_schedule_is_deleted_is_not_executed(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    with timed.shop.database.write() as session:
        new = ScheduleCreate(name="hourly", cron_schedule="0 * * * *")
        state = schedules.create(session, timed.caller, timed.shop.project_id, new).value
        state.schedule.next_tick_at = MONDAY
    submit = waiting._submit

    def delete_before(database: Database, settings: Settings, row: TickJob) -> None:
        with database.write() as session:
            schedules.delete(session, timed.caller, timed.shop.project_id, "hourly", ())
        submit(database, settings, row)

    monkeypatch.setattr(waiting, "_submit", delete_before)
    assert fire(timed.shop.database, timed.shop.settings, state.schedule.id, MONDAY, MONDAY).state == "FIRED"
    assert timed.executions() == []


def test_two_daemons_fire_a_tick_once(timed: Timed) -> None:
    timed.add_job("Films")
    with ThreadPoolExecutor(6) as pool:
        ticks = list(pool.map(timed.fire, [MONDAY] * 6))
        for future in [pool.submit(timed.sync) for _ in range(3)]:
            future.result()
    assert len(set(ticks)) == 1
    assert len(timed.executions()) == 2


def test_a_crash_between_tick_and_executions_loses_nothing(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    timed.add_job("Films")
    calls: list[str] = []

    def crash(_session: Session, planned: PlannedExecution) -> None:
        calls.append(planned.execution.id)
        raise Unavailable("The process ends here.")

    with monkeypatch.context() as patch:
        patch.setattr(waiting, "accept_execution", crash)
        timed.fire(MONDAY)
    assert len(calls) == 2
    assert timed.outcomes() == [(0, "FIRED", {"Books": "WAITING", "Films": "WAITING"})]
    timed.sync()
    timed.sync()
    assert len(timed.executions()) == 2


def test_the_launcher_fires_what_dagster_does_not(timed: Timed) -> None:
    database, settings = timed.shop.database, timed.shop.settings
    assert fire_overdue(database, settings, MONDAY + GRACE - timedelta(seconds=1)) == []
    assert [tick.tick_at for tick in fire_overdue(database, settings, MONDAY + GRACE)] == [MONDAY]
    assert fire_overdue(database, settings, MONDAY + GRACE) == []
    assert timed.fire(MONDAY, MONDAY + GRACE).state == "FIRED"
    assert len(timed.executions()) == 1


def test_steps_of_the_clock_neither_lose_nor_double_a_tick(timed: Timed) -> None:
    timed.set(overlap="allow", missed="all")
    database, settings = timed.shop.database, timed.shop.settings
    clock = MONDAY
    for step in (0, 60, -60, 30, 30, 60, 60, -120, 60, 60, 60):  # minutes
        clock += timedelta(minutes=step)
        timed.fire(clock.replace(minute=0), clock)
        fire_overdue(database, settings, clock)
        timed.sync()
    hours = [each.tick_at.hour for each in timed.executions() if each.tick_at]
    assert sorted(hours) == sorted(set(hours)) == list(range(clock.hour + 1))


@pytest.mark.parametrize(
    ("missed", "states"),
    [
        ("latest", ["MISSED", "MISSED", "FIRED"]),
        ("none", ["MISSED", "MISSED", "MISSED"]),
        ("all", ["FIRED", "FIRED", "FIRED"]),
    ],
)
def test_missed_ticks(timed: Timed, missed: str, states: list[str]) -> None:
    timed.set(missed=missed)
    tick = timed.fire(MONDAY + 2 * HOUR, MONDAY + 2 * HOUR + LATE + GRACE)
    assert tick.state == states[-1]
    assert [state for _, state, _ in timed.outcomes()] == states
    assert all(each.tick.reason for each in timed.ticks() if each.tick.state == "MISSED")
    for _ in range(3):  # those that are caught up run one after the other
        running = [each for each in timed.executions() if each.state == "PENDING"]
        assert len(running) <= 1
        for each in running:
            timed.shop.complete(each)
        timed.sync()
    assert len(timed.executions()) == states.count("FIRED")


def test_a_tick_in_time_is_not_missed(timed: Timed) -> None:
    timed.set(missed="none")
    assert timed.fire(MONDAY, MONDAY + timedelta(minutes=1)).state == "FIRED"


@pytest.mark.parametrize(("overlap", "states"), [("skip", "SKIPPED"), ("queue", "WAITING"), ("allow", "SUBMITTED")])
def test_overlap(timed: Timed, overlap: str, states: str) -> None:
    timed.set(overlap=overlap)
    timed.fire(MONDAY)
    timed.fire(MONDAY + HOUR)
    timed.sync()
    assert [jobs["Books"] for _, _, jobs in timed.outcomes()] == ["SUBMITTED", states]
    timed.shop.complete(timed.executions()[0])
    timed.fire(MONDAY + 2 * HOUR)
    timed.sync()
    expected = {"SKIPPED": ["SKIPPED", "SUBMITTED"], "WAITING": ["SUBMITTED", "WAITING"]}
    after = [jobs["Books"] for _, _, jobs in timed.outcomes()][1:]
    assert after == expected.get(states, ["SUBMITTED", "SUBMITTED"])
    if overlap == "skip":
        assert [each.jobs[0].code for each in timed.ticks()] == [None, "overlap", None]


def read_output_of(timed: Timed, job_id: str, name: str) -> str:
    """Add a job whose input is another one's output."""
    with timed.shop.database.write() as session:
        job = session.get_one(Job, job_id)
        shop = timed.shop
        dataset = Dataset(organization_id=shop.organization_id, project_id=shop.project_id, job_id=job_id)
        dataset.name, dataset.slug, dataset.schema_slug = job.name, job.slug, "shop"
        session.add(dataset)
        session.flush()
        dataset_id = dataset.id
    return timed.add_job(name, input_dataset_id=dataset_id)


@pytest.mark.parametrize("depends", [False, True])
@pytest.mark.parametrize(("ends", "states"), [("COMPLETED", "SUBMITTED"), ("FAILED", "SKIPPED"), ("gone", "SKIPPED")])
def test_a_job_waits_for_the_jobs_that_it_reads_or_depends_on(
    timed: Timed, ends: str, states: str, depends: bool
) -> None:
    if depends:
        timed.add_job("Prices", depends_on=["Books"])
        timed.add_job("Report", depends_on=["Prices", "no such job"])
    else:
        reader = read_output_of(timed, timed.shop.job_id, "Prices")
        read_output_of(timed, reader, "Report")
    timed.fire(MONDAY)
    timed.sync()
    assert timed.outcomes()[0][2] == {"Books": "SUBMITTED", "Prices": "WAITING", "Report": "WAITING"}
    (first,) = timed.executions()
    if ends == "COMPLETED":
        timed.shop.complete(first)
    elif ends == "FAILED":
        timed.shop.report(first, "FAILED", error_message="It broke.")
    else:
        timed.shop.delete_job()
    timed.sync()
    timed.sync()
    last = "WAITING" if ends == "COMPLETED" else "SKIPPED"
    assert timed.outcomes()[0][2] == {"Books": "SUBMITTED", "Prices": states, "Report": last}
    codes = {job.job_name: job.code for job in timed.ticks()[0].jobs}
    assert codes["Prices"] == (None if states == "SUBMITTED" else "upstream-failed")


def test_a_job_that_cannot_be_executed_is_recorded_and_the_others_fire(timed: Timed) -> None:
    timed.add_job("Bare", agent_id=None)
    timed.shop.add_job("Open", PIPELINE.replace("127.0.0.1", "${HOST_OF_SHOP}"))
    timed.fire(MONDAY)
    assert timed.outcomes() == [(0, "FIRED", {"Bare": "REFUSED", "Books": "SUBMITTED", "Open": "REFUSED"})]
    jobs = {job.job_name: job for job in timed.ticks()[0].jobs}
    assert (jobs["Bare"].code, jobs["Open"].code) == ("no-agent", "missing-parameter")
    assert "HOST_OF_SHOP" in (jobs["Open"].reason or "")


def test_full_slots_queue_the_executions(timed: Timed) -> None:
    timed.set(overlap="allow")
    for _ in range(MAX_CONCURRENT_EXECUTIONS):
        timed.shop.submit()
    timed.fire(MONDAY)
    waiting = timed.executions()[-1]
    assert (waiting.state, waiting.trigger) == ("QUEUED", "schedule")
    timed.shop.free_one_slot()
    assert timed.shop.reload(waiting).state == "PENDING"


def test_a_tick_beyond_the_limit_of_a_day_is_refused(timed: Timed) -> None:
    with timed.shop.database.write() as session:
        change_limits(session, timed.shop.organization_id, LimitsUpdate(executions_a_day=0))
    timed.fire(MONDAY)
    ((_, _, jobs),) = timed.outcomes()
    assert jobs == {"Books": "REFUSED"}
    with timed.shop.database.read() as session:
        row = session.scalars(select(TickJob)).one()
    assert (row.code, "the limit is 0" in (row.reason or "")) == ("daily-limit", True)
    assert timed.executions() == []


def test_disabled_schedules_and_projects_fire_nothing(timed: Timed) -> None:
    timed.set(enabled=False)
    assert (timed.fire(MONDAY).state, timed.set(enabled=True).schedule.enabled) == ("SKIPPED", True)
    timed.rewind(MONDAY + HOUR)
    timed.shop.change_project(enabled=False)
    timed.fire(MONDAY + HOUR)
    assert [(state, jobs) for _, state, jobs in timed.outcomes()] == [("SKIPPED", {}), ("SKIPPED", {})]
    assert all(each.tick.reason for each in timed.ticks())
    timed.shop.change_project(enabled=True)
    assert timed.fire(MONDAY + 2 * HOUR).state == "FIRED"


def test_a_changed_schedule_does_not_fire_old_ticks(timed: Timed) -> None:
    timed.set(cron_schedule="30 * * * *")
    timed.rewind()
    assert timed.fire(MONDAY).tick_id is None  # Dagster may still have the old expression
    assert timed.fire(MONDAY + HOUR / 2).state == "FIRED"
    timed.rewind(MONDAY + 5 * HOUR)
    assert timed.fire(MONDAY + HOUR * 1.5).tick_id is None  # before it was set
    assert fire_overdue(timed.shop.database, timed.shop.settings, MONDAY + HOUR * 2) == []
    assert len(timed.executions()) == 1


def test_deleted_jobs_and_projects(timed: Timed) -> None:
    other = timed.add_job("Films")
    timed.set(job_id=other)
    timed.fire(MONDAY)
    assert timed.outcomes() == [(0, "FIRED", {"Films": "SUBMITTED"})]
    schedule_id = timed.id
    replace(timed.shop, job_id=other).delete_job()
    assert timed.fire(MONDAY + HOUR).state == "SKIPPED"
    assert timed.ticks()[0].jobs[0].job_name == "Films"  # the history stays
    timed.shop.delete_project()
    fire = waiting.submit_waiting
    fire(timed.shop.database, timed.shop.settings)
    with timed.shop.database.read() as session:
        assert session.scalars(select(Schedule)).all() == session.scalars(select(TickJob)).all() == []
    assert fire_overdue(timed.shop.database, timed.shop.settings, MONDAY + 9 * HOUR) == []
    assert schedule_id


def test_a_schedule_of_an_earlier_version_is_planned(timed: Timed) -> None:
    with timed.shop.database.write() as session:
        session.execute(update(Schedule).values(planned_for=None, next_tick_at=None))
    fire_overdue(timed.shop.database, timed.shop.settings, MONDAY - timedelta(minutes=1))
    assert timed.fire(MONDAY).state == "FIRED"
    cancel(timed.shop.database, timed.shop.organization_id, timed.executions()[0].id, "Stopped.")
    assert isinstance(timed.executions()[0], Execution)
