"""Whoever keeps the service waiting keeps only so many of its requests."""

from __future__ import annotations

import socket
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

from api.kit.concurrency import OUTBOUND, PACKAGES, QUERIES, UPLOADS
from tests.support.api import Api
from tests.support.service import PATIENCE_SECONDS, wait_until


@pytest.fixture
def silent() -> Generator[socket.socket]:
    """A server that takes connections, up to its backlog, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield server


def test_requests_that_wait_for_others_leave_room_for_everybody(
    acme: Api, rival: Api, silent: socket.socket, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("core.infra.http_client.TOTAL_SECONDS", PATIENCE_SECONDS)  # they wait until it is closed
    port = silent.getsockname()[1]

    def ask(api: Api, at: int) -> int:
        body = {"provider": "OPENAI", "apiKey": "x", "endpoint": f"http://127.0.0.1:{at}"}
        return api.call("POST", "/cloud-credentials/test", json=body).status_code

    with ThreadPoolExecutor(OUTBOUND.per_caller) as pool:
        waiting = [pool.submit(ask, acme, port) for _ in range(OUTBOUND.per_caller)]
        wait_until(lambda: OUTBOUND._running.total() == OUTBOUND.per_caller, PATIENCE_SECONDS)
        assert ask(acme, port) == 429
        refused = acme.call("GET", f"/html/127.0.0.1:{port}/http")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
        assert refused.json()["details"][0]["code"] == "concurrency-limit"
        assert ask(rival, 9) == 200
        silent.close()
        assert [each.result() for each in waiting] == [200] * OUTBOUND.per_caller
    assert ask(acme, 9) == 200


def test_an_organization_with_many_queries_leaves_threads_for_others(acme: Api, rival: Api):
    with ExitStack() as under_way:
        for _ in range(QUERIES.per_caller):
            under_way.enter_context(QUERIES.acquire(acme.organization_id))
        refused = acme.call("POST", "/datasets/query", json={"sql": "SHOW CATALOGS"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
        assert refused.json()["details"][0]["code"] == "concurrency-limit"
        assert rival.call("POST", "/datasets/query", json={"sql": "SHOW CATALOGS"}).status_code == 200
    assert acme.call("POST", "/datasets/query", json={"sql": "SHOW CATALOGS"}).status_code == 200


def test_an_organization_with_many_packages_leaves_room_for_others(acme: Api, rival: Api):
    uploads = [(api, api.get("/package/upload")["url"]) for api in (acme, rival)]
    content = acme.client.get(acme.get("/package/export/all")["url"]).content
    with ExitStack() as under_way:
        for _ in range(PACKAGES.per_caller):
            under_way.enter_context(PACKAGES.acquire(acme.organization_id))
        refused = [acme.client.put(uploads[0][1], content=content), acme.call("GET", "/package/import/all")]
        assert [(each.status_code, each.headers["Retry-After"]) for each in refused] == [(429, "10")] * 2
        assert rival.client.put(uploads[1][1], content=content).status_code == 200
    assert acme.client.put(uploads[0][1], content=content).status_code == 200


@contextmanager
def unfinished(url: str) -> Generator[socket.socket]:
    """An upload whose body has begun and goes no further."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as sender:
        head = f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: 1000\r\n\r\nPK"
        sender.sendall(head.encode())
        yield sender


def test_uploads_that_trickle_keep_nobody_elses_package_out(acme: Api, rival: Api, capsys: pytest.CaptureFixture[str]):
    url, theirs = (api.get("/package/upload")["url"] for api in (acme, rival))
    content = acme.client.get(acme.get("/package/export/all")["url"]).content
    with ExitStack() as under_way:
        for _ in range(UPLOADS.per_caller):
            under_way.enter_context(unfinished(url))
        wait_until(lambda: UPLOADS._running[acme.organization_id] == UPLOADS.per_caller, 60)
        refused = acme.client.put(url, content=content)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
        assert "being uploaded" in refused.json()["error"]
        assert rival.client.put(theirs, content=content).status_code == 200
        assert rival.call("GET", "/package/import/all").status_code == 200
        assert not PACKAGES._running
    wait_until(lambda: not UPLOADS._running, 60)
    assert acme.client.put(url, content=content).status_code == 200
    assert "request failed" not in capsys.readouterr().out


def test_an_upload_that_does_not_come_to_its_end_is_ended(acme: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("api.packages.endpoints.BODY_SECONDS", 0.1)
    with unfinished(acme.get("/package/upload")["url"]) as sender:
        answer = b"".join(iter(lambda: sender.recv(4096), b"")).decode()
    assert answer.startswith("HTTP/1.1 408 ")
    assert "request-timeout" in answer
    wait_until(lambda: not UPLOADS._running, 60)
