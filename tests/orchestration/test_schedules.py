"""A schedule of each minute in a running service: its ticks, executions and runs, over REST and in Dagster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from orchestration.client import REPOSITORY
from tests.support.service import Service, wait_until

SCHEDULE = """query ($selector: ScheduleSelector!) { scheduleOrError(scheduleSelector: $selector) { __typename
  ... on Schedule { name cronSchedule executionTimezone futureTicks(limit: 2) { results { timestamp } }
    scheduleState { id status ticks(limit: 5) { timestamp status runIds skipReason error { message } } } } } }"""
PIPELINE = """\
fetch: {url: "http://127.0.0.1:1/"}
pipeline:
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
"""
TURN_OFF = """mutation ($id: String!) { stopRunningSchedule(id: $id) { __typename } }"""


def find_schedule(service: Service, project: str) -> dict[str, Any]:
    selector = {"scheduleName": project, **REPOSITORY}
    return service.graphql(SCHEDULE, selector=selector)["scheduleOrError"]


@pytest.mark.long
def test_a_schedule_fires_each_minute_in_the_ui_and_over_rest(service: Service) -> None:
    with service.client() as client:
        job = service.make_job(PIPELINE)
        slug = service.get(f"/projects/id/{job.project_id}")["slug"]
        path = f"/projects/id/{job.project_id}/schedule"
        client.put(path, json={"cronSchedule": "* * * * *", "timezone": "Europe/Berlin"}).raise_for_status()
        wait_until(lambda: find_schedule(service, slug)["__typename"] == "Schedule", 60)
        shown = find_schedule(service, slug)
        assert (shown["cronSchedule"], shown["executionTimezone"]) == ("* * * * *", "Europe/Berlin")
        assert len(shown["futureTicks"]["results"]) == 2
        assert shown["scheduleState"]["status"] == "RUNNING"

        def list_results() -> list[Any]:
            return [result for tick in service.get(f"{path}/ticks") for result in tick["jobs"] if result["executionId"]]

        wait_until(list_results, 150)
        result = list_results()[-1]
        first = next(tick for tick in service.get(f"{path}/ticks") if result in tick["jobs"])
        execution = service.get(f"{job.path}/executions/{result['executionId']}")
        assert (execution["trigger"], execution["scheduleTick"]) == ("schedule", first["tickAt"])
        created, due = (datetime.fromisoformat(each) for each in (execution["createdAt"], first["tickAt"]))
        print("lateness:", (created - due).total_seconds())
        service.wait(job, result["executionId"])
        (run,) = service.runs(result["executionId"])
        tags = {tag["key"]: tag["value"] for tag in run["tags"]}
        assert tags["dagster/schedule_name"] == slug

        def find_tick() -> Any:  # the first one may have come before Dagster knew the schedule
            ticks = find_schedule(service, slug)["scheduleState"]["ticks"]
            return next((tick for tick in ticks if tick["runIds"]), None)

        wait_until(find_tick, 150)
        assert find_tick()["status"] == "SUCCESS"
        at = datetime.fromtimestamp(find_tick()["timestamp"], UTC)
        ticks = {datetime.fromisoformat(tick["tickAt"]): tick for tick in service.get(f"{path}/ticks")}
        (shown_run,) = service.runs(ticks[at]["jobs"][0]["executionId"])
        assert find_tick()["runIds"] == [shown_run["runId"]]

        # one switch: turned off in the UI, on over REST
        service.graphql(TURN_OFF, id=find_schedule(service, slug)["scheduleState"]["id"])
        wait_until(lambda: not service.get(path)["enabled"], 60)
        client.put(path, json={"enabled": True}).raise_for_status()
        wait_until(lambda: find_schedule(service, slug)["scheduleState"]["status"] == "RUNNING", 60)
        client.put(path, json={"cronSchedule": ""}).raise_for_status()
        wait_until(lambda: find_schedule(service, slug)["__typename"] != "Schedule", 60)
        ticks = [tick["tickAt"] for tick in service.get(f"{path}/ticks")]
        assert len(ticks) == len(set(ticks))
