"""Live parts of an execution's page: rendered once for many viewers, never older than the event that they saw."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from api.console import pages, shared_pages
from api.events.shared_reads import SharedReads
from core.infra.database import open_database
from core.lifecycle.executions.events import record_progress
from core.tables import Execution, ExecutionEvent
from tests.support.api import Api, Job, Server
from tests.support.service import PATIENCE_SECONDS

SEEN = shared_pages.EVENT_HEADER


@pytest.fixture
def stack() -> Generator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def sign_in(stack: ExitStack, server: Server, api: Api) -> httpx.Client:
    url = str(server.client.base_url).rstrip("/")
    browser = stack.enter_context(httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, verify=False))
    browser.post("/console/sign-in", data={"key": api.key}, headers={"Origin": url})
    return browser


def get(path: str, seen: int, browser: httpx.Client) -> httpx.Response:
    return browser.get(path, headers={SEEN: str(seen)})


def report(server: Server, job: Job, execution: str, rows: int) -> int:
    """Report progress; return the id of the execution's last event."""
    stages = [{"key": "s01", "title": "extract", "state": "RUNNING", "rows": rows}]
    job.report(execution, "RUNNING", additionalMetrics={"progress": {"stages": stages}})
    with open_database(server.settings).write() as session:
        found = session.get_one(Execution, execution)
        record_progress(session, found)
        session.flush()
        last = select(func.max(ExecutionEvent.id)).where(ExecutionEvent.execution_id == execution)
        return session.scalar(last) or 0


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates that were rendered; they stay shared for as long as the test runs."""
    names, render = list[str](), pages.render

    def count(request: Any, template: str, *args: Any, **values: Any) -> Any:
        names.append(template)
        return render(request, template, *args, **values)

    monkeypatch.setattr(pages, "render", count)
    monkeypatch.setattr(shared_pages, "FRESH_SECONDS", PATIENCE_SECONDS)
    return names


def test_viewers_share_a_page_until_its_next_event(
    server: Server, acme: Api, job: Job, stack: ExitStack, rendered: list[str]
):
    execution = job.execute()
    path = f"/console/projects/{job.project_id}/jobs/{job.id}/executions/{execution}"
    viewers = [sign_in(stack, server, each) for each in (acme, server.caller(acme.organization_id, "admin"))] * 4
    first = report(server, job, execution, 17)
    with ThreadPoolExecutor(len(viewers)) as pool:
        shown = list(pool.map(partial(get, path, first), viewers))
    assert {each.status_code for each in shown} == {200}
    assert all('<td class="n">17</td>' in each.text and "Sign out" not in each.text for each in shown)
    assert len(rendered) == 1
    second = report(server, job, execution, 4_711)
    assert second > first
    shown = [get(path, second, each) for each in viewers]
    assert all("4\u202f711" in each.text for each in shown)
    assert len(rendered) == 2
    job.report(execution, "FAILED", errorMessage="It broke.")
    assert "It broke." in viewers[0].get(path).text  # who opens the page sees it as it is


def test_viewers_share_the_pages_of_an_organization_a_project_and_a_job(
    server: Server, acme: Api, job: Job, stack: ExitStack, rendered: list[str]
):
    execution = job.execute()
    project = f"/console/projects/{job.project_id}"
    viewers = [sign_in(stack, server, each) for each in (acme, server.caller(acme.organization_id, "admin"))] * 4
    report(server, job, execution, 17)
    for path in ("/console", project, f"{project}/jobs/{job.id}"):
        rendered.clear()
        with ThreadPoolExecutor(len(viewers)) as pool:
            shown = list(pool.map(partial(get, path, 0), viewers))
        assert {each.status_code for each in shown} == {200}
        assert all("Sign out" not in each.text for each in shown)
        assert len(rendered) == 1, path
    last = report(server, job, execution, 4_711)
    assert "4\u202f711" in get(f"{project}/jobs/{job.id}", last, viewers[0]).text
    reader, stranger = server.caller(acme.organization_id, "etl:read"), server.caller("watching strangers")
    month = "need a key with the scope"
    assert month not in get("/console", 0, viewers[0]).text
    assert month in get("/console", 0, sign_in(stack, server, reader)).text
    assert job.project_id not in get("/console", 0, sign_in(stack, server, stranger)).text
    assert get(project, last, sign_in(stack, server, stranger)).status_code == 404


def test_shared_pages_keep_rights_and_organizations_apart(
    server: Server, acme: Api, rival: Api, job: Job, stack: ExitStack
):
    execution = job.execute()
    path = f"/console/projects/{job.project_id}/jobs/{job.id}/executions/{execution}"
    reader = server.caller(acme.organization_id, "etl:read")
    assert 'id="cancel"' in get(path, 0, sign_in(stack, server, acme)).text
    assert 'id="cancel"' not in get(path, 0, sign_in(stack, server, reader)).text
    assert get(path, 0, sign_in(stack, server, rival)).status_code == 404
    assert get(path, 0, sign_in(stack, server, server.caller(acme.organization_id, "datasets:read"))).status_code == 403
    stranger = stack.enter_context(httpx.Client(base_url=server.client.base_url, verify=False))
    assert get(path, 0, stranger).status_code == 401
    assert get(f"{path}0", 0, sign_in(stack, server, acme)).status_code == 404


def test_streams_of_one_execution_share_their_polls():
    calls, reads = list[int](), SharedReads[int](PATIENCE_SECONDS)

    def read() -> int:
        calls.append(1)
        return len(calls)

    async def follow() -> list[int]:
        same = [reads.read(("acme", "execution"), read) for _ in range(200)]
        return [*await asyncio.gather(*same), await reads.read(("rival", "execution"), read)]

    assert asyncio.run(follow()) == [1] * 200 + [2]


def test_a_poll_that_fails_fails_for_all_and_is_repeated():
    reads = SharedReads[int](0)

    async def follow() -> int:
        with pytest.raises(ZeroDivisionError):
            await reads.read("topic", lambda: 1 // 0)
        return await reads.read("topic", lambda: 7)

    assert asyncio.run(follow()) == 7
