"""Cron jobs are Dagster schedules, whose ticks store calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dagster import DagsterInstance, ScheduleEvaluationContext, build_schedule_context

from core.definitions.cron_jobs.models import CronJobCreate
from core.definitions.cron_jobs.outlines import CronJobOutline, load_cron_job_outlines
from core.definitions.cron_jobs.repository import CronJobRepository
from core.definitions.identity.organizations import create_organization
from core.infra.database import Database, open_database
from core.infra.encryption import KeyRing
from core.infra.migrations import migrate
from core.infra.settings import Settings
from core.tables import CronJob, CronJobCall, now
from orchestration.cron_jobs import build_cron_job_schedule, call_cron_job, get_schedule_name
from orchestration.runs import open_run_host

TICK_LOG = ["__repository__", "cron", "17"]  # the key that the daemon gives to the log of a tick


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setenv("SPINDLE_DATA", str(tmp_path))
    migrate(Settings())
    with closing(open_database(Settings())) as database:
        yield database


def create_cron_job(database: Database, name: str, schedule: str, timezone: str = "UTC") -> CronJobOutline:
    """A cron job that was created long ago."""
    with database.write() as session:
        organization = create_organization(session, name)
        values = {"name": name, "schedule": schedule, "timezone": timezone, "webhook_url": "https://example.com/"}
        cron_job = CronJobRepository(session, organization.id).create(
            Settings(), KeyRing(b"key"), CronJobCreate(**values)
        )
        cron_job.created_at = datetime(2026, 1, 1, tzinfo=UTC)
    with database.read() as session:
        (outline,) = load_cron_job_outlines(session, [cron_job.id])
    return outline


def list_ticks(database: Database) -> list[datetime]:
    with database.read() as session:
        return [call.tick_at for call in session.query(CronJobCall).order_by(CronJobCall.tick_at)]


def test_a_tick_of_the_schedule_stores_one_call(database: Database) -> None:
    outline = create_cron_job(database, "Jede Minute “🦔”", "0 * * * * ?")
    schedule = build_cron_job_schedule(outline)
    tick_at = now().replace(second=0, microsecond=0)
    preview = schedule.evaluate_tick(build_schedule_context(scheduled_execution_time=tick_at))
    assert "preview" in (preview.skip_message or "")
    assert list_ticks(database) == []
    for _ in range(2):
        data = schedule.evaluate_tick(ScheduleEvaluationContext(None, tick_at, TICK_LOG))
        assert data.run_requests == []
        assert data.skip_message
    assert list_ticks(database) == [tick_at]
    with database.write() as session:
        session.delete(session.get_one(CronJob, outline.cron_job_id))
    schedule.evaluate_tick(ScheduleEvaluationContext(None, tick_at + timedelta(minutes=1), TICK_LOG))
    assert list_ticks(database) == []


def test_definitions_show_each_cron_job(database: Database) -> None:
    from orchestration.definitions import load_definitions  # which loads them, and so needs a database

    outlines = [
        create_cron_job(database, name, "0 30 6 ? * MON-FRI *", "Europe/Berlin") for name in ("a/b", "a b", "ab 🦔")
    ]
    with database.read() as session:
        assert load_cron_job_outlines(session) == outlines
    repository = load_definitions().get_repository_def()
    schedules = {each.name: each for each in repository.schedule_defs}
    assert set(schedules) == {get_schedule_name(each) for each in outlines}
    schedule = schedules[get_schedule_name(outlines[0])]
    assert (schedule.execution_timezone, schedule.metadata["cron job"].value) == ("Europe/Berlin", "a/b")


@pytest.mark.long
def test_a_call_can_be_made_by_hand(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outline = create_cron_job(database, "by hand", "@yearly")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}")
    config = {"ops": {"store_call": {"config": {"cron_job_id": outline.cron_job_id}}}}
    with DagsterInstance.get() as instance:
        run = instance.create_run_for_job(call_cron_job, run_config=config)
        with open_run_host(Settings()) as host:
            host.execute_run(run.run_id, threading.Event())
        stored = instance.get_run_by_id(run.run_id)
    assert stored.is_success
    assert len(list_ticks(database)) == 1
