"""Live updates over a real connection."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import httpx
import pytest

from api.events import stream
from core.definitions.identity.api_keys import Identity
from core.infra.database import Database
from core.lifecycle.events import service
from core.tables import ExecutionEvent
from tests.support.api import BASE, Api, Job, Server, open_session
from tests.support.service import PATIENCE_SECONDS, wait_until

Event = dict[str, Any]


@contextmanager
def opened(api: Api, path: str, last: int | None = None) -> Generator[httpx.Response]:
    headers = {"X-API-Key": api.key} | ({} if last is None else {"Last-Event-ID": str(last)})
    with httpx.stream(
        "GET", str(api.client.base_url) + BASE + path, headers=headers, timeout=PATIENCE_SECONDS
    ) as response:
        yield response


def events(response: httpx.Response) -> Iterator[Event]:
    """The events of a stream as they come; comments are events of their own."""
    event: Event = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if line.startswith(":"):
            yield {"event": "comment"}
        elif name in ("id", "event", "data"):
            event[name] = json.loads(value) if name == "data" else value
        elif not line:
            if "data" in event:  # an id alone tells the place
                yield event
            event = {}


@contextmanager
def following(api: Api, path: str) -> Generator[list[Event]]:
    """What a stream says, collected by another thread; the stream is open when this begins."""
    seen: list[Event] = []
    ready = threading.Event()

    def follow() -> None:
        with opened(api, path) as response:
            ready.set()
            for event in events(response):
                seen.append(event)
                if event.get("data", {}).get("errorMessage") == "Last.":
                    return

    thread = threading.Thread(target=follow)
    thread.start()
    assert ready.wait(PATIENCE_SECONDS)
    yield seen
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "the stream has not ended"


def told(seen: list[Event]) -> list[Event]:
    return [event for event in seen if event["event"] != "comment"]


def shown(seen: list[Event]) -> list[tuple[str, str]]:
    return [(event["event"], event["data"]["status"]) for event in told(seen)]


@pytest.fixture
def soon_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream in which nothing happens tells so at once: by then it knows where it begins."""
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0)


@pytest.mark.long
def test_an_execution_is_followed_to_its_end(job: Job):
    execution = job.execute()
    with following(job.api, f"{job.path}/executions/{execution}/events") as seen:
        wait_until(lambda: len(seen) == 1, PATIENCE_SECONDS)
        job.report(execution, "RUNNING")
        for fraction in (0.25, 0.5):
            job.report(execution, "RUNNING", additionalMetrics={"progress": {"fraction": fraction}})
            wait_until(lambda at=fraction: seen[-1]["data"].get("progress") == {"fraction": at}, PATIENCE_SECONDS)
        job.report(execution, "FAILED", errorMessage="It broke.")
    assert shown(seen) == [
        ("state", "PENDING"),
        ("state", "RUNNING"),
        ("progress", "RUNNING"),
        ("progress", "RUNNING"),
        ("progress", "FAILED"),
        ("state", "FAILED"),
    ]
    assert seen[-1]["data"]["errorMessage"] == "It broke."
    assert seen[-1]["data"]["executionId"] == execution
    ids = [int(event["id"]) for event in seen]
    assert ids == sorted(set(ids))


def test_a_stream_resumes_after_a_reconnect_and_ends_with_the_execution(acme: Api, job: Job):
    execution = job.execute()
    job.report(execution, "RUNNING")
    job.report(execution, "FAILED", errorMessage="It broke.")
    path = f"{job.path}/executions/{execution}/events"
    with opened(acme, path) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "ratelimit-remaining" in response.headers
        whole = list(events(response))
    assert shown(whole) == [("state", "PENDING"), ("state", "RUNNING"), ("state", "FAILED")]
    with opened(acme, path, last=int(whole[0]["id"])) as response:
        assert list(events(response)) == whole[1:]
    with opened(acme, path, last=int(whole[-1]["id"])) as response:
        assert (response.status_code, response.read()) == (204, b"")
    assert acme.call("GET", path, headers={"Last-Event-ID": "x"}).status_code == 400


@pytest.mark.usefixtures("soon_heard")
def test_a_project_shows_all_of_its_executions_and_nothing_else(acme: Api, job: Job, rival: Api):
    theirs = rival.job(f"{job.id} of the rival")
    before = job.execute()
    with following(acme, f"/projects/{job.project_id}/events") as seen:
        wait_until(lambda: seen, PATIENCE_SECONDS)
        first, second = job.execute(), job.execute()
        theirs.execute()
        job.report(first, "RUNNING")
        job.report(second, "FAILED", errorMessage="Last.")
    states = [(event["data"]["executionId"], event["data"]["status"]) for event in told(seen)]
    assert states == [(first, "PENDING"), (second, "PENDING"), (first, "RUNNING"), (second, "FAILED")]
    assert before not in [execution for execution, _ in states]
    with opened(acme, f"/projects/id/{job.project_id}/events", last=int(told(seen)[1]["id"])) as response:
        replayed = (event for event in events(response) if event["event"] != "comment")
        assert [next(replayed), next(replayed)] == told(seen)[2:]


def test_a_stream_that_breaks_before_its_first_event_resumes_at_its_start(acme: Api, job: Job):
    job.execute()
    path = f"/projects/id/{job.project_id}/events"
    with opened(acme, path) as response:
        beginning = list(takewhile(bool, response.iter_lines()))
    missed = job.execute()
    told_ids = [int(line.removeprefix("id: ")) for line in beginning if line.startswith("id: ")]
    assert len(told_ids) == 1, beginning
    with opened(acme, path, last=told_ids[0]) as response:
        assert next(events(response))["data"]["executionId"] == missed


def test_an_event_while_a_stream_opens_is_its_first_event(acme: Api, job: Job, monkeypatch: pytest.MonkeyPatch):
    executed: list[str] = []

    get_last_id = service.get_last_id

    def then_execute(database: Database, caller: Identity, project_id: str) -> int:
        last = get_last_id(database, caller, project_id)
        executed.append(job.execute())
        return last

    monkeypatch.setattr(service, "get_last_id", then_execute)
    with opened(acme, f"/projects/id/{job.project_id}/events") as response:
        assert next(events(response))["data"]["executionId"] == executed[0]


def test_an_execution_older_than_its_events_shows_its_state(acme: Api, server: Server, job: Job):
    execution = job.execute()
    job.report(execution, "FAILED", errorMessage="It broke.")
    forget(server, execution)
    with opened(acme, f"{job.path}/executions/{execution}/events") as response:
        assert shown(list(events(response))) == [("state", "FAILED")]


def forget(server: Server, execution: str) -> None:
    with open_session(server.settings) as session:
        session.query(ExecutionEvent).filter_by(execution_id=execution).delete()


def test_silence_is_broken_by_comments_and_a_revoked_key_ends_the_stream(
    acme: Api, job: Job, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.2)
    made = acme.post("/auth/api-keys", {"name": "watcher", "scopes": ["etl:read"]})
    watcher = Api(acme.client, acme.settings, acme.organization_id, made["key"])
    with opened(watcher, f"/projects/id/{job.project_id}/events") as response:
        said = events(response)
        assert next(said) == {"event": "comment"}
        acme.call("DELETE", f"/auth/api-keys/{made['id']}")
        assert all(event == {"event": "comment"} for event in said)


def test_a_revoked_key_ends_a_stream_that_is_never_silent(acme: Api, job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.5)
    monkeypatch.setattr(stream, "POLL_SECONDS", 0.05)
    made = acme.post("/auth/api-keys", {"name": "watcher", "scopes": ["etl:read"]})
    watcher = Api(acme.client, acme.settings, acme.organization_id, made["key"])
    execution = job.execute()
    with opened(watcher, f"{job.path}/executions/{execution}/events") as response:
        said = events(response)
        acme.call("DELETE", f"/auth/api-keys/{made['id']}")
        for number in range(100):
            job.report(execution, "RUNNING", additionalMetrics={"progress": {"fraction": number / 100}})
            if next(said, None) is None:
                return
    raise AssertionError("the stream goes on without its key")


@pytest.mark.usefixtures("soon_heard")
@pytest.mark.parametrize("what", ["executions/{}", ""])
def test_deleting_the_followed_record_ends_the_stream(acme: Api, job: Job, what: str):
    execution = job.execute()
    path = f"{job.path}/executions/{execution}/events" if what else f"/projects/id/{job.project_id}/events"
    with following(acme, path) as seen:
        wait_until(lambda: seen, PATIENCE_SECONDS)
        acme.call("DELETE", f"/projects/id/{job.project_id}")
    assert all(event["data"]["executionId"] == execution for event in told(seen))


def test_a_key_has_so_many_streams_and_gets_them_back(acme: Api, job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stream.OF_KEYS, "per_caller", 2)
    path = f"/projects/id/{job.project_id}/events"
    with opened(acme, path), opened(acme, path):
        refused = acme.call("GET", path)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
        assert "streams" in refused.json()["error"]
    wait_until(lambda: stream.OF_KEYS._running.total() == 0, PATIENCE_SECONDS)


def test_many_keys_of_an_organization_leave_streams_for_others(
    acme: Api, rival: Api, server: Server, job: Job, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stream.OF_ORGANIZATIONS, "per_caller", 2)
    path, theirs = f"/projects/id/{job.project_id}/events", f"/projects/id/{rival.project(job.id)}/events"
    first, second, third = (server.caller(acme.organization_id, "etl:read") for _ in range(3))
    with opened(first, path), opened(second, path):
        refused = third.call("GET", path)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
        with opened(rival, theirs) as response:
            assert response.status_code == 200
    wait_until(lambda: stream.OF_ORGANIZATIONS._running.total() == 0, PATIENCE_SECONDS)
    with opened(third, path) as response:
        assert response.status_code == 200


@pytest.mark.long
def test_a_stream_that_is_not_read_is_closed(acme: Api, server: Server, job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stream, "SLOWEST_SECONDS", 0.5)
    execution = job.execute()
    fill(server, job, execution)
    with socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect((acme.client.base_url.host, acme.client.base_url.port))
        path = f"{BASE}{job.path}/executions/{execution}/events"
        lazy.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {acme.key}\r\n\r\n".encode())
        assert lazy.recv(1), "it has begun"
        wait_until(lambda: stream.OF_KEYS._running.total() == 0, PATIENCE_SECONDS)
        assert sum(map(len, iter(lambda: lazy.recv(65_536), b""))) < 200 * 60_000, "and not come to its end"


def fill(server: Server, job: Job, execution: str) -> None:
    """More than the buffers between two processes take."""
    with open_session(server.settings) as session:
        session.add_all(
            ExecutionEvent(project_id=job.project_id, execution_id=execution, kind="state", data={"x": "x" * 60_000})
            for _ in range(200)
        )


def test_events_need_the_scope_and_the_organization(acme: Api, rival: Api, server: Server, job: Job):
    execution = job.execute()
    paths: list[Callable[[str], str]] = [
        lambda one: f"{job.path}/executions/{one}/events",
        lambda _: f"/projects/id/{job.project_id}/events",
    ]
    for path in paths:
        assert rival.call("GET", path(execution)).status_code == 404
        assert server.caller(acme.organization_id, "datasets:read").call("GET", path(execution)).status_code == 403
