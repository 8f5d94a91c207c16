"""A schedule of each minute in a running service, and the runs that its ticks show."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetSpec, DagsterInstance, Definitions
from dagster._core.definitions.schedule_definition import ScheduleExecutionData
from dagster._core.definitions.selector import InstigatorSelector
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorType, TickData, TickStatus
from dagster._grpc.impl import get_external_schedule_execution

from core.definitions.schedules.outlines import load_schedules
from core.infra.database import open_database
from core.infra.migrations import migrate
from core.infra.settings import Settings
from orchestration import schedules
from orchestration.client import REPOSITORY
from orchestration.schedules import build_schedule, record_run_of_tick
from tests.core.lifecycle.firing.conftest import Timed
from tests.support.service import POLL_SECONDS, Service, wait_until
from tests.support.shop import make_shop

SCHEDULE = """query ($selector: ScheduleSelector!) { scheduleOrError(scheduleSelector: $selector) { __typename
  ... on Schedule { name cronSchedule executionTimezone futureTicks(limit: 2) { results { timestamp } }
    scheduleState { id status ticks(limit: 5) { timestamp status runIds skipReason error { message } } } } } }"""
START = """mutation ($selector: ScheduleSelector!) { startSchedule(scheduleSelector: $selector) { __typename } }"""
STOP = """mutation ($id: String!) { stopRunningSchedule(id: $id) { __typename } }"""
PIPELINE = """\
fetch: {url: "http://127.0.0.1:1/"}
pipeline:
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
"""


def find_schedule(service: Service, project: str) -> dict[str, Any]:
    selector = {"scheduleName": project, **REPOSITORY}
    return service.graphql(SCHEDULE, selector=selector)["scheduleOrError"]


def turn_in_ui(service: Service, name: str, *, running: bool) -> None:
    """Use the switch of a schedule as Dagster's UI does."""
    if running:
        answer = service.graphql(START, selector={"scheduleName": name, **REPOSITORY})
    else:
        answer = service.graphql(STOP, id=find_schedule(service, name)["scheduleState"]["id"])
    assert next(iter(answer.values()))["__typename"] == "ScheduleStateResult"


@pytest.mark.gate
@pytest.mark.long
def test_a_schedule_fires_each_minute_in_the_ui_and_over_rest(service: Service) -> None:
    with service.client() as client:
        job = service.make_job(PIPELINE)
        slug = service.get(f"/projects/id/{job.project_id}")["slug"]
        path = f"/projects/id/{job.project_id}/schedule"
        client.put(path, json={"cronSchedule": "* * * * *", "timezone": "Europe/Berlin"}).raise_for_status()
        often = {"name": "often", "cronSchedule": "* * * * *", "overlap": "allow"}
        client.post(f"{path}s", json=often).raise_for_status()
        wait_until(lambda: find_schedule(service, slug)["__typename"] == "Schedule", 60, every=POLL_SECONDS)
        shown = find_schedule(service, slug)
        assert (shown["cronSchedule"], shown["executionTimezone"]) == ("* * * * *", "Europe/Berlin")
        assert len(shown["futureTicks"]["results"]) == 2
        assert shown["scheduleState"]["status"] == "RUNNING"

        def list_results() -> list[Any]:
            return [result for tick in service.get(f"{path}/ticks") for result in tick["jobs"] if result["executionId"]]

        wait_until(list_results, 150, every=POLL_SECONDS)
        result = list_results()[-1]
        first = next(tick for tick in service.get(f"{path}/ticks") if result in tick["jobs"])
        execution = service.get(f"{job.path}/executions/{result['executionId']}")
        assert (execution["trigger"], execution["scheduleTick"]) == ("schedule", first["tickAt"])
        service.wait(job, result["executionId"])
        (run,) = service.runs(result["executionId"])
        tags = {tag["key"]: tag["value"] for tag in run["tags"]}
        assert tags["dagster/schedule_name"] == slug

        def list_often() -> list[str]:
            ticks = find_schedule(service, f"{slug}__often")["scheduleState"]["ticks"]
            return [run_id for tick in ticks for run_id in tick["runIds"]]

        wait_until(list_often, 150, every=POLL_SECONDS)
        assert client.delete(f"{path}s/often").is_success

        def list_runs_of_ticks() -> list[str]:
            ticks = find_schedule(service, slug)["scheduleState"]["ticks"]
            return [run_id for tick in ticks if tick["status"] == "SUCCESS" for run_id in tick["runIds"]]

        wait_until(list_runs_of_ticks, 150, every=POLL_SECONDS)
        turn_in_ui(service, slug, running=False)
        wait_until(lambda: service.get(path)["enabled"] is False, 60, every=POLL_SECONDS)
        client.put(path, json={"enabled": True}).raise_for_status()
        wait_until(lambda: find_schedule(service, slug)["scheduleState"]["status"] == "RUNNING", 60, every=POLL_SECONDS)
        client.put(path, json={"enabled": False}).raise_for_status()
        wait_until(lambda: find_schedule(service, slug)["scheduleState"]["status"] == "STOPPED", 60, every=POLL_SECONDS)


def test_only_the_daemons_tick_of_a_schedule_has_an_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The button `Preview tick result` and `scheduleDryRun` evaluate the same function, without a tick's log."""
    monkeypatch.setenv("SPINDLE_DATA", str(tmp_path))
    settings, tick_at = Settings(), datetime(2027, 3, 1, tzinfo=UTC)
    migrate(settings)
    with closing(open_database(settings)) as database:
        monkeypatch.setattr(schedules, "_open", lambda: (settings, database))
        monkeypatch.setattr(schedules, "now", lambda: tick_at)
        timed = Timed(make_shop(settings, database))
        timed.set(cron_schedule="@hourly")
        timed.rewind(tick_at)
        with database.read() as session:
            (outline,) = load_schedules(session)
        repository = Definitions(schedules=[build_schedule(outline)], assets=[AssetSpec("a")]).get_repository_def()

        def evaluate(log_key: list[str] | None) -> ScheduleExecutionData:
            at = tick_at.timestamp()
            data = get_external_schedule_execution(repository, None, outline.name, at, "UTC", log_key)
            assert isinstance(data, ScheduleExecutionData), data
            return data

        for _ in range(2):
            assert "Books: no parameters." in (evaluate(None).skip_message or "")
        assert (timed.ticks(), timed.executions()) == ([], [])
        assert "was accepted" in (evaluate(["__repository__", outline.name, "17"]).skip_message or "")
        assert [each.tick_at for each in timed.executions()] == [tick_at]


def test_a_finished_tick_shows_its_runs(tmp_path: Path) -> None:
    at, name = datetime(2027, 3, 1, tzinfo=UTC), "shop"
    repository = RemoteRepositoryOrigin(GrpcServerCodeLocationOrigin("127.0.0.1", 1, location_name="spindle"), "r")
    origin_id = RemoteInstigatorOrigin(repository, name).get_id()
    selector_id = InstigatorSelector(location_name="spindle", repository_name="r", name=name).get_id()
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert not record_run_of_tick(instance, repository, name, at, "run-1")
        kind, started = InstigatorType.SCHEDULE, TickStatus.STARTED
        tick = instance.create_tick(TickData(origin_id, name, kind, started, at.timestamp(), selector_id=selector_id))
        assert not record_run_of_tick(instance, repository, name, at, "run-1")
        instance.update_tick(tick.with_status(TickStatus.SKIPPED, skip_reason="accepted"))
        for run_id in ("run-1", "run-2", "run-1"):
            assert record_run_of_tick(instance, repository, name, at, run_id)
        shown = instance.get_tick(origin_id, selector_id, at.timestamp())
        assert (shown.status, list(shown.run_ids)) == (TickStatus.SUCCESS, ["run-1", "run-2"])
