"""Sessions of the console: signing in with a key, what a session may do, and its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from datetime import datetime, timedelta

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import select

from api.app import create_app
from api.kit.auth import CONSOLE_HEADER, SESSION_COOKIE
from core.definitions.identity.console_sessions import IDLE, LONGEST, hash_secret
from core.infra.database import open_database
from core.infra.settings import Settings
from core.tables import ConsoleSession, now
from tests.api.world import UNKNOWN_ID
from tests.support.api import BASE, ROWS, Api, Job, Server
from tests.support.service import PATIENCE_SECONDS

OF_CONSOLE = {CONSOLE_HEADER: "1"}


@pytest.fixture
def browser(server: Server) -> Generator[httpx.Client]:
    """A client with cookies of its own."""
    with httpx.Client(base_url=server.client.base_url, timeout=PATIENCE_SECONDS, verify=False) as client:
        yield client


def post_form(browser: httpx.Client, path: str, origin: str | None = None, **fields: str) -> httpx.Response:
    headers = {"Origin": origin or str(browser.base_url).rstrip("/")}
    return browser.post(f"/console/{path}", data=fields, headers=headers)


def sign_in(browser: httpx.Client, api: Api) -> str:
    answer = post_form(browser, "sign-in", key=f" {api.key}\n")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console")
    return browser.cookies[SESSION_COOKIE]


def change_session(server: Server, token: str, change: Callable[[ConsoleSession], None]) -> ConsoleSession:
    with open_database(server.settings).write() as session:
        found = session.scalars(select(ConsoleSession).where(ConsoleSession.token_hash == hash_secret(token))).one()
        change(found)
    return found


def list_sessions(server: Server) -> Mapping[str, datetime]:
    """Return the ends of the stored sessions by the hashes of their tokens."""
    with open_database(server.settings).read() as session:
        return {each.token_hash: each.expires_at for each in session.scalars(select(ConsoleSession))}


def test_a_key_begins_a_session(browser: httpx.Client, server: Server, acme: Api):
    asked = browser.get("/console/datasets?cursor=x")
    assert (asked.status_code, 'value="/console/datasets?cursor=x"' in asked.text) == (401, True)
    assert post_form(browser, "sign-in", key="sk_unknown").status_code == 401
    answer = post_form(browser, "sign-in", key=acme.key, target="/console/datasets")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/datasets")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(answer.headers["Set-Cookie"].split("; "))
    home = browser.get("/console")
    assert (home.status_code, home.headers["Cache-Control"]) == (200, "no-store")
    assert "script-src 'self'" in home.headers["Content-Security-Policy"]
    token = browser.cookies[SESSION_COOKIE]
    assert (token in str(list_sessions(server)), hash_secret(token) in list_sessions(server)) == (False, True)


@pytest.mark.parametrize("target", ["//evil.test", "https://evil.test/console", "/console.evil.test", "/api/docs"])
def test_signing_in_leads_to_the_console_alone(browser: httpx.Client, acme: Api, target: str):
    answer = post_form(browser, "sign-in", key=acme.key, target=target)
    assert answer.headers["Location"] == "/console"


@pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://127.0.0.1:1"])
def test_forms_of_other_sites_are_refused(browser: httpx.Client, acme: Api, origin: str):
    assert post_form(browser, "sign-in", origin, key=acme.key).status_code == 403
    sign_in(browser, acme)
    assert post_form(browser, "sign-out", origin).status_code == 403
    assert browser.get("/console").status_code == 200


def test_nothing_of_the_console_is_changed_for_other_sites(browser: httpx.Client, acme: Api):
    """Each route under `/console` that takes more than GET, and Dagster's mutations in an address."""
    sign_in(browser, acme)
    found = {
        (method, re.sub("{[^}]*}", "x", route.path or ""))
        for route in iter_route_contexts(create_app(Settings()).routes)
        if (route.path or "").startswith("/console")
        for method in (route.methods or set[str]()) - {"GET", "HEAD"}
    }
    assert ("POST", "/console/sign-out") in found
    for method, path in sorted(found):
        for origin in ("http://evil.test", "null", None):
            headers = {} if origin is None else {"Origin": origin}
            answer = browser.request(method, path, headers=headers)
            assert answer.status_code in (403, 404), (method, path, origin, answer.text)
    assert browser.get("/console").status_code == 200


def test_the_cookie_counts_in_rest_only_with_the_header_of_the_console(browser: httpx.Client, job: Job):
    token = sign_in(browser, job.api)
    assert browser.get(f"{BASE}/projects").status_code == 401
    assert browser.post(f"{BASE}{job.path}/execute").status_code == 401
    assert browser.post(f"{BASE}{job.path}/execute", headers=OF_CONSOLE).status_code == 200
    answer = browser.get(f"{BASE}/projects", headers=OF_CONSOLE)
    assert (answer.status_code, "RateLimit-Limit" in answer.headers) == (200, True)
    assert post_form(browser, "sign-in", key=token).status_code == 401


def test_a_revoked_key_ends_its_session_at_once(browser: httpx.Client, server: Server, acme: Api):
    used = server.caller(acme.organization_id, "etl:read")
    sign_in(browser, used)
    assert browser.get("/console").status_code == 200
    key_id = next(key["id"] for key in reversed(acme.get("/auth/api-keys")) if key["scopes"] == ["etl:read"])
    acme.call("DELETE", f"/auth/api-keys/{key_id}")
    assert browser.get("/console").status_code == 401


def test_signing_out_ends_the_session(browser: httpx.Client, acme: Api):
    token = sign_in(browser, acme)
    assert browser.get("/console").status_code == 200
    assert post_form(browser, "sign-out").status_code == 303
    assert SESSION_COOKIE not in browser.cookies
    assert browser.get("/console", headers={"Cookie": f"{SESSION_COOKIE}={token}"}).status_code == 401


def test_a_session_that_is_used_is_renewed_and_ends(browser: httpx.Client, server: Server, acme: Api):
    def set_times(age: timedelta, left: timedelta) -> Callable[[ConsoleSession], None]:
        def change(session: ConsoleSession) -> None:
            session.created_at, session.expires_at = now() - age, now() + left

        return change

    expired = change_session(server, sign_in(browser, acme), set_times(IDLE, -timedelta(seconds=1)))
    assert browser.get("/console").status_code == 401
    token = sign_in(browser, acme)
    assert expired.token_hash not in list_sessions(server)
    change_session(server, token, set_times(IDLE, IDLE / 2))
    assert browser.get("/console").status_code == 200
    assert list_sessions(server)[hash_secret(token)] > now() + IDLE / 2 + timedelta(minutes=10)
    token = sign_in(browser, acme)
    change_session(server, token, set_times(LONGEST - IDLE / 2, IDLE / 4))
    assert browser.get("/console").status_code == 200
    assert list_sessions(server)[hash_secret(token)] < now() + IDLE / 2


def test_pages_have_the_rights_of_the_key(browser: httpx.Client, server: Server, job: Job):
    execution = job.execute()
    page = f"/console/projects/{job.project_id}/jobs/{job.id}/executions/{execution}"
    sign_in(browser, job.api)
    assert 'id="cancel"' in browser.get(page).text
    sign_in(browser, server.caller(job.api.organization_id, "etl:read"))
    answer = browser.get(page)
    assert (answer.status_code, 'id="cancel"' in answer.text) == (200, False)
    assert browser.get("/console/datasets").status_code == 403
    refused = browser.post(f"{BASE}{job.path}/executions/{execution}/cancel", headers=OF_CONSOLE)
    assert refused.status_code == 403


def test_an_unknown_address_is_a_page(browser: httpx.Client, acme: Api):
    assert "Sign in" in browser.get("/console/nowhere/else").text
    sign_in(browser, acme)
    answer = browser.get("/console/nowhere/else")
    assert (answer.status_code, "There is no such page" in answer.text) == (404, True)
    assert browser.get("/console/static/nowhere.js").status_code == 404


def test_records_of_other_organizations_are_unknown(browser: httpx.Client, rival: Api, job: Job):
    execution = job.execute()
    dataset = job.complete(execution, ROWS)
    sign_in(browser, rival)
    base = f"/console/projects/{job.project_id}"
    own = (base, f"{base}/jobs/{job.id}", f"{base}/jobs/{job.id}/executions/{execution}")
    data = f"/console/datasets/{dataset}"
    for path in (*own, data, f"{data}/download", f"/console/datasets/{UNKNOWN_ID}"):
        answer = browser.get(path)
        assert (answer.status_code, "acme" in answer.text) == (404, False), path
    assert job.api.get("/executions", state="COMPLETED")
    assert execution not in browser.get(f"{BASE}/executions", headers=OF_CONSOLE).text


def test_executions_of_all_projects_are_listed(job: Job):
    done, waiting = job.execute(), job.execute()
    job.complete(done, ROWS)
    completed = [each["executionId"] for each in job.api.get("/executions", state="COMPLETED")]
    assert (done in completed, waiting in completed) == (True, False)
    newest = job.api.get("/executions", limit=1)
    assert [each["executionId"] for each in newest] == [waiting]
    at = job.api.get(f"{job.path}/executions/{waiting}")["createdAt"]
    since = [each["executionId"] for each in job.api.get("/executions", since=at)]
    assert (waiting in since, done in since) == (True, False)
    assert job.api.call("GET", "/executions?state=GONE").status_code == 400
