"""Walks through credentials and notifications: targets, rules, tests of both, and secrets that no page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from api.kit.auth import CONSOLE_HEADER, SESSION_COOKIE
from tests.api.world import UNKNOWN_ID
from tests.browser.test_console import ATTACK, sign_in_beside, url_of
from tests.browser.test_console_work import open_page
from tests.support.api import BASE, Api, Server
from tests.support.walk import Walk
from tests.support.webhook_receiver import Receiver, receive_webhooks

SECRET = "T0PSECRET-of-a-target"
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def editors(server: Server) -> Api:
    return server.caller("console told", "etl:read", "etl:write")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receive_webhooks() as receiver:
        yield receiver


def test_people_are_told_by_a_target_and_a_rule(
    server: Server, editors: Api, receiver: Receiver, open_walk: Callable[..., Walk]
) -> None:
    job = editors.job("told")
    walk = open_walk()
    page = walk.page
    shown = list[str]()
    walk.sign_in(url_of(server), editors.key)
    page.get_by_role("link", name="told").first.click()
    expect(page.get_by_text("Nobody is told what happens here.")).to_be_visible()
    page.get_by_role("link", name="Notifications").click()
    expect(page.get_by_text("First make a target below.")).to_be_visible()
    walk.look("notifications_empty")
    page.get_by_role("link", name="Credentials").click()
    expect(page.get_by_text("There is no credential yet.")).to_be_visible()
    walk.look("credentials_empty")
    page.get_by_role("link", name="WEBHOOK").click()
    page.get_by_label("Name", exact=True).fill("ops")
    page.get_by_label("Address").fill("ftp://x.test/")
    page.get_by_label("API key").fill(SECRET)
    page.context.clear_cookies()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    sign_in_beside(walk, editors)
    page.get_by_label("Address").fill(f"{receiver.url}/503/hook")
    walk.look("credential_new")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="ops")).to_be_visible()
    expect(page.get_by_label("API key")).to_have_value("")
    walk.look("credential")
    shown.append(page.content())

    page.get_by_role("link", name="Notifications").first.click()
    page.get_by_role("link", name="to told").click()
    page.get_by_label("Name", exact=True).fill("on_call")
    expect(page.get_by_label("Target")).to_contain_text("ops (WEBHOOK)")
    page.get_by_label("A job has not completed by").fill("99:00")
    page.get_by_label("one completes after a failure").check()
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#e-endBy")).not_to_be_empty()
    walk.look("rule_problem")
    page.get_by_label("A job has not completed by").fill("07:00")
    page.get_by_label("Fewer rows").fill("0.5")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="on_call")).to_be_visible()
    expect(page.get_by_text("It has told nothing in the last week.")).to_be_visible()
    stored = editors.get(f"/projects/id/{job.project_id}/notifications/on_call")
    assert (stored["events"], stored["endBy"], stored["minRowShare"]) == (["failed", "recovered"], "07:00", 0.5)
    page.get_by_label("Fewer rows").fill("0")
    test = page.get_by_role("button", name="Send a test message")
    test.click()
    expect(page.locator("output")).to_contain_text("The target was not reached")
    expect(page.get_by_role("group", name="Last messages")).to_contain_text("failed")
    expect(page.get_by_label("Fewer rows")).to_have_value("0")  # what was typed is kept
    editors.put(
        f"/cloud-credentials/id/{stored['cloudCredentialId']}",
        {"endpoint": f"{receiver.url}/hook"} | {"apiKey": SECRET},
    )
    test.press("Enter")
    expect(page.locator("output")).to_contain_text("The target has accepted the message")
    expect(page.get_by_role("group", name="Last messages")).to_contain_text("delivered")
    (sent,) = receiver.of("/hook")
    assert sent.headers["authorization"] == f"Bearer {SECRET}"
    page.get_by_label("Job", exact=True).select_option("told")
    with page.expect_event("load"):
        page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Job", exact=True)).to_have_value(job.id)
    walk.look("rule")
    assert editors.get(f"/projects/id/{job.project_id}/notifications/on_call")["minRowShare"] == 0
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#state")).to_have_text("paused")
    page.get_by_role("link", name="Notifications").first.click()
    page.get_by_role("row", name="on_call").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("row", name="on_call").get_by_role("button", name="Pause")).to_be_visible()
    walk.look("notifications")
    page.goto(f"{url_of(server)}/console/projects/{job.project_id}/jobs/{job.id}")
    page.get_by_role("link", name="New rule").click()
    expect(page.get_by_label("Job", exact=True)).to_have_value(job.id)
    page.go_back()
    expect(page.locator("#told")).to_contain_text("failed, recovered, not completed by 07:00")
    walk.look("job_told")
    page.get_by_role("link", name="on_call").click()
    page.set_viewport_size({"width": 360, "height": 740})
    walk.look("rule_phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for path, name in (("notifications", "notifications_phone"), ("credentials", "credentials_phone")):
        page.goto(f"{url_of(server)}/console/{path}")
        walk.look(name)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        shown.append(page.content())
    page.get_by_role("link", name="ops").click()
    page.get_by_label("API key").fill(f"{SECRET}-anew")
    with page.expect_event("load"):
        page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("API key")).to_have_value("")
    walk.look("credential_phone")
    shown.append(page.content())
    assert not [each for each in shown if SECRET in each or "***" in each]
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("There is no credential yet.")).to_be_visible()
    page.goto(f"{url_of(server)}/console/notifications")
    expect(page.get_by_role("group", name="Rules")).to_contain_text("a credential that was deleted")
    page.get_by_role("link", name="on_call").click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Nobody is told of anything")).to_be_visible()


def test_a_provider_is_asked_and_texts_stay_texts(server: Server, editors: Api, open_walk: Callable[..., Walk]) -> None:
    fields = {"provider": "SEARXNG", "name": ATTACK, "description": ATTACK, "endpoint": "http://127.0.0.1:9/"}
    credential = editors.post("/cloud-credentials", fields)["id"]
    target = editors.post("/cloud-credentials", {"provider": "SLACK", "name": ATTACK, "apiKey": SECRET})["id"]
    job = editors.job(ATTACK)
    rule = {"name": "on_call", "cloudCredentialId": target, "events": ["failed"], "jobId": job.id}
    editors.post(f"/projects/id/{job.project_id}/notifications", rule)
    walk = open_walk(color_scheme="dark")
    page = walk.page
    walk.sign_in(url_of(server), editors.key)
    paths = {
        "hostile_credentials": "/console/credentials",
        "hostile_notifications": "/console/notifications",
        "hostile_rule": f"/console/projects/{job.project_id}/rules/of/on_call",
        "hostile_credential": f"/console/credentials/{credential}",
    }
    for name, path in paths.items():
        page.goto(url_of(server) + path)
        assert "{{7*7}}" in page.locator("main").inner_text(), name
        walk.look(name)
        assert page.title() != "ran", name
    page.get_by_role("button", name="Ask SEARXNG whether it works").click()
    expect(page.locator("output")).to_contain_text("SEARXNG did not answer")


def test_other_organizations_sites_and_readers(server: Server, editors: Api) -> None:
    job = editors.job("kept to themselves")
    target = editors.post("/cloud-credentials", {"provider": "SLACK", "name": "kept", "apiKey": SECRET})["id"]
    rule = {"name": "kept", "cloudCredentialId": target, "events": ["failed"]}
    editors.post(f"/projects/id/{job.project_id}/notifications", rule)
    paths = [
        f"/console/credentials/{target}",
        f"/console/projects/{job.project_id}/rules/of/kept",
        f"/console/projects/{job.project_id}/rules/new",
    ]
    stranger, reader = server.caller("strangers to the told"), server.caller(editors.organization_id, "etl:read")
    assert stranger.key
    for path in paths:
        shown = open_page(server, stranger, path)
        unknown = open_page(server, stranger, path.replace(target, UNKNOWN_ID).replace(job.project_id, UNKNOWN_ID))
        assert (shown.status_code, unknown.status_code) == (404, 404), path
        page = open_page(server, reader, path)
        assert (page.status_code, "data-action" in page.text, "<button disabled" in page.text) == (200, False, False)
        assert SECRET not in page.text
    for path in ("/console/credentials", "/console/notifications", "/console/credentials/new?provider=SLACK"):
        assert "kept" not in open_page(server, stranger, path).text
        assert "data-action" not in open_page(server, reader, path).text, path
    assert open_page(server, editors, "/console/credentials/new?provider=+").status_code == 400
    cookie = open_session(server, editors)
    body = {"provider": "SLACK", "apiKey": "x"}
    for headers, status in (({}, 401), ({CONSOLE_HEADER: "1"}, 200)):
        sent = {"Cookie": f"{SESSION_COOKIE}={cookie}", "Origin": "http://evil.test"} | headers
        assert server.client.post(f"{BASE}/cloud-credentials", json=body, headers=sent).status_code == status


def open_session(server: Server, caller: Api) -> str:
    answer = server.client.post(
        "/console/sign-in", data={"key": caller.key}, headers={"Origin": url_of(server).rstrip("/")}
    )
    server.client.cookies.clear()
    return answer.cookies[SESSION_COOKIE]
