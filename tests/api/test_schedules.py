"""Schedules of projects over REST."""

from __future__ import annotations

import pytest

from tests.support.api import Api, Job, read_code

DEFAULTS = {
    "name": None,
    "cronSchedule": None,
    "enabled": True,
    "timezone": "UTC",
    "jobId": None,
    "parameters": {},
    "executionRequestJson": None,
    "overlap": "skip",
    "missed": "latest",
    "nextTicks": [],
    "lastTick": None,
    "problem": None,
}


def test_the_project_and_its_schedule_are_one_record(acme: Api, job: Job):
    project = f"/projects/id/{job.project_id}"
    path = f"{project}/schedule"
    assert acme.get(path) == {"projectId": job.project_id, **DEFAULTS}
    changes = {
        "schedule": "0 30 6 ? * MON-FRI",
        "timezone": "Europe/Berlin",
        "jobId": job.id,
        "parameters": {"CITY": "Rome"},
        "executionRequestJson": '{"arguments": ["A=1"], "limit": 5}',
        "overlap": "Queue",
        "missed": "all",
    }
    changed = acme.put(path, changes)
    assert len(changed.pop("nextTicks")) == 5
    own = {"cronSchedule": changes.pop("schedule"), "overlap": "queue"}
    assert changed.items() >= (changes | own).items()
    assert acme.get(project)["cronSchedule"] == own["cronSchedule"]
    merged = acme.put(f"/projects/{job.project_id}/schedule", {"enabled": False, "jobId": "", "timezone": None})
    assert (merged["enabled"], merged["jobId"], merged["timezone"]) == (False, None, "Europe/Berlin")
    assert merged["nextTicks"] == []  # a disabled schedule has none
    acme.put(project, {"cronSchedule": "@daily"})
    whole = acme.get(path)
    assert whole["cronSchedule"] == "@daily"
    assert acme.put(path, whole) == whole
    cleared = acme.put(path, {"cronSchedule": "", "executionRequestJson": ""})
    assert (cleared["cronSchedule"], cleared["executionRequestJson"]) == (None, None)
    assert acme.get(f"{path}/ticks") == []


def test_a_schedule_whose_job_was_deleted_says_so(acme: Api, job: Job):
    path = f"/projects/id/{job.project_id}/schedule"
    assert acme.put(path, {"cronSchedule": "@daily", "jobId": job.id})["problem"] is None
    assert acme.call("DELETE", job.path).is_success
    problem = acme.get(path)["problem"]
    assert problem == "The job of this schedule was deleted. Set another jobId, or an empty one for all jobs."
    assert acme.put(path, {"timezone": "Europe/Berlin"})["problem"] == problem
    assert acme.put(path, {"jobId": ""})["problem"] is None


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"cronSchedule": "at five"}, "cronSchedule", "invalid-cron"),
        ({"cronSchedule": "* * * * * *"}, "cronSchedule", "unsupported-cron"),
        ({"schedule": "0 0 12 1 1 ? 2030"}, "cronSchedule", "unsupported-cron"),
        ({"cronSchedule": "0 0 30 2 *"}, "cronSchedule", "unsupported-cron"),
        ({"timezone": "Mars/Base"}, "timezone", "unknown-timezone"),
        ({"jobId": "01a00000-0000-7000-8000-000000000000"}, "jobId", "not-found"),
        ({"overlap": "sometimes"}, "overlap", "invalid-value"),
        ({"missed": "some"}, "missed", "invalid-value"),
        ({"executionRequestJson": "{"}, "executionRequestJson", "invalid-value"),
        ({"executionRequestJson": "[]"}, "executionRequestJson", "invalid-value"),
        ({"executionRequestJson": '{"limit": "x"}'}, "executionRequestJson.limit", "invalid-value"),
        ({"executionRequestJson": '{"publsh": false}'}, "executionRequestJson.publsh", "unknown-field"),
        ({"enabled": "yes"}, "enabled", "invalid-value"),
    ],
)
def test_bad_input_changes_nothing(acme: Api, job: Job, body: dict[str, object], path: str, code: str):
    url = f"/projects/id/{job.project_id}/schedule"
    before = acme.get(url)
    refused = acme.call("PUT", url, json={"overlap": "allow", **body})
    assert refused.status_code == 400
    (detail,) = refused.json()["details"]
    assert (detail["path"], detail["code"]) == (path, code)
    assert acme.get(url) == before


def test_a_schedule_belongs_to_its_organization_and_has_an_etag(acme: Api, rival: Api, job: Job):
    url = f"/projects/id/{job.project_id}/schedule"
    for path in (url, f"{url}/ticks"):
        assert rival.call("GET", path).status_code == 404
    assert rival.call("PUT", url, json={"enabled": False}).status_code == 404
    tag = acme.call("GET", url).headers["ETag"]
    assert acme.call("PUT", url, json={"overlap": "allow"}, headers={"If-Match": tag}).status_code == 200
    late = acme.call("PUT", url, json={"overlap": "skip"}, headers={"If-Match": tag})
    assert late.status_code == 412
    assert acme.get(url)["overlap"] == "allow"


def test_a_project_has_schedules_by_name(acme: Api, rival: Api, job: Job):
    path = f"/projects/id/{job.project_id}/schedules"
    assert acme.get(path) == [{"projectId": job.project_id, **DEFAULTS}]
    new = {"name": "nightly", "cronSchedule": "0 2 * * *", "jobId": job.id, "parameters": {"DEPTH": 2}}
    nightly = acme.post(path, new)
    assert (nightly["name"], nightly["cronSchedule"], nightly["jobId"]) == ("nightly", "0 2 * * *", job.id)
    hourly = acme.post(path, {"name": "hourly", "cronSchedule": "@hourly", "timezone": "Asia/Kolkata"})
    assert all(tick.endswith("30:00Z") for tick in hourly["nextTicks"])
    assert acme.get(f"/projects/id/{job.project_id}")["cronSchedule"] is None
    acme.put(f"/projects/id/{job.project_id}/schedule", {"cronSchedule": "@weekly"})
    assert [(each["name"], each["cronSchedule"]) for each in acme.get(path)] == [
        (None, "@weekly"),
        ("hourly", "@hourly"),
        ("nightly", "0 2 * * *"),
    ]
    assert acme.get(f"{path}/nightly/ticks") == []
    assert acme.put(f"{path}/nightly", {"enabled": False})["nextTicks"] == []
    tag = acme.call("GET", f"{path}/nightly").headers["ETag"]
    assert acme.call("PUT", f"{path}/nightly", json={"enabled": True}, headers={"If-Match": tag}).is_success
    assert acme.call("DELETE", f"{path}/nightly", headers={"If-Match": tag}).status_code == 412
    assert acme.call("PUT", f"{path}/new", json={"cronSchedule": "@daily"}).status_code == 404
    again = acme.call("POST", path, json={"name": "hourly", "cronSchedule": "@daily"})
    assert (again.status_code, again.json()["details"][0]["path"]) == (409, "name")
    assert rival.call("DELETE", f"{path}/nightly").status_code == 404
    assert acme.call("DELETE", f"{path}/nightly").is_success
    assert acme.call("GET", f"{path}/nightly").status_code == 404
    assert acme.call("DELETE", f"{path}/nightly").status_code == 404
    assert acme.get(f"/projects/id/{job.project_id}/schedule")["cronSchedule"] == "@weekly"


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"name": "Nightly run", "cronSchedule": "@daily"}, "name", "invalid-value"),
        ({"name": "a__b", "cronSchedule": "@daily"}, "name", "invalid-value"),
        ({"name": "", "cronSchedule": "@daily"}, "name", "invalid-value"),
        ({"name": "new"}, "cronSchedule", "invalid-value"),
        ({"name": "new", "cronSchedule": "at five"}, "cronSchedule", "invalid-cron"),
    ],
)
def test_bad_schedules_by_name_change_nothing(acme: Api, job: Job, body: dict[str, str], path: str, code: str):
    url = f"/projects/id/{job.project_id}/schedules"
    acme.post(url, {"name": "known", "cronSchedule": "@daily"})
    before = acme.get(url)
    refused = acme.call("POST", url, json=body)
    assert read_code(refused) == (400, code)
    assert refused.json()["details"][0]["path"] == path
    assert acme.call("PUT", f"{url}/known", json={"cronSchedule": ""}).status_code == 400
    assert acme.get(url) == before


def test_a_scheduled_time_in_the_past_is_refused(acme: Api, job: Job):
    late = acme.call("PUT", job.path, json={"scheduledTime": "2020-01-01T00:00:00Z"})
    assert read_code(late) == (400, "past-time")
    late = acme.call("POST", f"{job.path}/tasks", json={"name": "late", "scheduledTime": "2020-01-01T00:00:00Z"})
    assert (late.status_code, late.json()["details"][0]["path"]) == (400, "scheduledTime")
    execution = acme.get(f"{job.path}/executions/{acme.post(f'{job.path}/execute', {})['executionId']}")
    assert (execution["trigger"], execution["scheduleTick"]) == ("rest", None)
