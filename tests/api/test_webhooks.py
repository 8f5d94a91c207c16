"""Webhooks over REST."""

from __future__ import annotations

import pytest

from core.lifecycle.executions.tokens import find_signer
from tests.support.api import Api, Job
from tests.support.webhook_receiver import Receiver


def test_a_webhook_is_made_shown_once_changed_and_deleted(acme: Api, job: Job):
    path = f"/projects/id/{job.project_id}/webhooks"
    made = acme.post(path, {"url": "https://example.com/hook", "events": ["execution.failed"]})
    secret = made.pop("secret")
    assert secret.startswith("whsec_")
    assert made["enabled"] is True
    assert acme.get(path) == [made]
    assert acme.get(f"/projects/{job.project_id}/webhooks/{made['id']}") == made
    changed = acme.put(f"{path}/{made['id']}", {"description": "For the shop.", "events": None, "enabled": False})
    assert (changed["description"], changed["events"], changed["enabled"]) == (
        "For the shop.",
        ["execution.failed"],
        False,
    )
    rotated = acme.post(f"{path}/{made['id']}/rotate")["secret"]
    assert rotated != secret
    for answer in (acme.call("GET", path), acme.call("GET", f"{path}/{made['id']}/deliveries")):
        assert secret not in answer.text
        assert rotated not in answer.text
    assert acme.call("DELETE", f"{path}/{made['id']}").json() == {}
    assert acme.call("GET", f"{path}/{made['id']}").status_code == 404


def test_a_test_event_shows_its_result(acme: Api, job: Job, receiver: Receiver):
    path = f"/projects/id/{job.project_id}/webhooks"
    good = acme.post(path, {"url": f"{receiver.url}/200/x"})
    bad = acme.post(path, {"url": f"{receiver.url}/500/x"})
    delivered = acme.post(f"{path}/{good['id']}/test")
    assert (delivered["state"], delivered["type"], delivered["tries"][0]["status"]) == (
        "DELIVERED",
        "webhook.test",
        200,
    )
    find_signer([good["secret"]], receiver.messages[0].headers, receiver.messages[0].body)
    failed = acme.post(f"{path}/{bad['id']}/test")
    assert (failed["state"], failed["tries"][0]["error"], failed["nextTryAt"]) == (
        "FAILED",
        "It answered 500.",
        None,
    )
    assert acme.get(f"{path}/{bad['id']}")["failingSince"] is None


def test_deliveries_are_listed_newest_first_in_pages(acme: Api, job: Job):
    path = f"/projects/id/{job.project_id}/webhooks"
    webhook = acme.post(path, {"url": "https://example.com/hook"})["id"]
    execution = job.execute()
    job.report(execution, "FAILED", errorMessage="It broke.")
    listed = acme.get(f"{path}/{webhook}/deliveries")
    assert [each["type"] for each in listed] == ["execution.failed", "execution.pending"]
    assert listed[0]["payload"]["data"]["errorMessage"] == "It broke."
    assert listed[0]["payload"]["data"]["executionId"] == execution
    first = acme.call("GET", f"{path}/{webhook}/deliveries", params={"limit": 1})
    assert first.json() == listed[:1]
    second = acme.call("GET", first.headers["Link"].split(">")[0].removeprefix("<"))
    assert second.json() == listed[1:]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": "http://10.1.2.3/"}, "url"),
        ({"url": "gopher://x/"}, "url"),
        ({"url": "https://example.com/", "events": ["execution.exploded"]}, "events"),
        ({"url": "https://example.com/", "events": "all"}, "events"),
    ],
)
def test_an_invalid_webhook_is_refused_with_its_field(acme: Api, job: Job, body: dict[str, object], field: str):
    answer = acme.call("POST", f"/projects/id/{job.project_id}/webhooks", json=body)
    assert (answer.status_code, answer.json()["details"][0]["path"]) == (400, field)
