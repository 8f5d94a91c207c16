"""The Dagster UI behind the console's session: in Chromium, and who may not see or change what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from api.kit.auth import SESSION_COOKIE
from tests.browser.test_dagster_ui import PATIENCE_MS
from tests.support.api import Server
from tests.support.service import NO_TLS, PATIENCE_SECONDS, Service, wait_until

LAUNCH = 'mutation { terminateRun(runId: "none") { __typename } }'
VERSION = "{ version }"
pytestmark = pytest.mark.long


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    page = chromium.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    page.context.close()


def sign_in(url: str, key: str) -> httpx.Client:
    client = httpx.Client(base_url=url, headers={"Origin": url}, timeout=PATIENCE_SECONDS, **NO_TLS)
    answer = client.post("/console/sign-in", data={"key": key})
    assert SESSION_COOKIE in answer.cookies
    return client


def test_the_ui_works_behind_the_session(service: Service, page: Page) -> None:
    (service.files / "proxied.csv").write_text("one\n1\n")
    job = service.make_job(f"pipeline: [{{stage: load_csv, args: [{service.files}/proxied.csv]}}]")
    project = service.get(f"/projects/id/{job.project_id}")["slug"]
    url = f"http://127.0.0.1:{service.port}"
    page.goto(f"{url}/console/dagster/runs")
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.get_by_label("API key").fill(service.key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Backfills")).to_be_visible()
    assert page.url == f"{url}/console/dagster/runs"
    execution = service.execute(job)
    assert service.wait(job, execution)["status"] == "COMPLETED"
    run = service.runs(execution)[0]["runId"]
    page.goto(f"{url}/console/dagster/runs/{run}")
    expect(page.get_by_text("RUN_SUCCESS")).to_be_visible()
    wait_until(lambda: f"ws://127.0.0.1:{service.port}/console/dagster/graphql" in sockets, PATIENCE_SECONDS)
    page.goto(f"{url}/console/dagster/assets/{project}/rows")
    page.get_by_role("button", name="Materialize").first.click()
    wait_until(lambda: len(service.get(f"{job.path}/executions")) == 2, PATIENCE_SECONDS, every=0.5)


def test_viewers_look_and_change_nothing(service: Service) -> None:
    key = service.post("/auth/api-keys", {"name": "viewer", "scopes": ["etl:read"]})["key"]
    url = f"http://127.0.0.1:{service.port}"
    with closing(sign_in(url, key)) as viewer:
        assert viewer.post("/console/dagster/graphql", json={"query": VERSION}).json()["data"]["version"]
        refused = [
            viewer.post("/console/dagster/graphql", json={"query": LAUNCH}),
            viewer.post("/console/dagster/graphql", json={"query": f"query A {VERSION} mutation B {LAUNCH[9:]}"}),
            viewer.get("/console/dagster/graphql", params={"query": LAUNCH}),
            viewer.post("/console/dagster/graphql", params={"query": LAUNCH}, json={"query": VERSION}),
            viewer.post("/console/dagster/graphql", content=LAUNCH, headers={"Content-Type": "application/graphql"}),
            viewer.post("/console/dagster/report_asset_materialization/a/b", json={}),
        ]
        assert [each.status_code for each in refused] == [403] * len(refused)
        strange = [
            viewer.post("/console/dagster/graphql", json={"query": "{a" * 20_000}),
            viewer.post("/console/dagster/graphql", content="{"),
            viewer.get("/console/dagster/notebook", params={"path": "/tmp/any.ipynb"}),
            viewer.get(httpx.URL(url).copy_with(raw_path=b"/console/%64agster/console/dagster@localhost:1/")),
        ]
        assert [each.status_code for each in strange] == [400, 400, 404, 404]
        foreign = viewer.post(
            "/console/dagster/graphql", json={"query": VERSION}, headers={"Origin": "http://evil.test"}
        )
        assert foreign.status_code == 403
        assert httpx.get(f"{url}/console/dagster/runs", **NO_TLS).status_code == 401
        socket = f"ws://127.0.0.1:{service.port}/console/dagster/graphql"
        for headers in ({"Origin": url}, {"Cookie": f"{SESSION_COOKIE}={viewer.cookies[SESSION_COOKIE]}"}):
            with pytest.raises(InvalidStatus):
                connect(socket, additional_headers=headers, proxy=None)


def test_an_address_of_another_site_changes_nothing(service: Service) -> None:
    with closing(sign_in(f"http://127.0.0.1:{service.port}", service.key)) as client:
        asked = [
            client.get("/console/dagster/graphql", params={"query": query}, headers=headers).status_code
            for query in (VERSION, LAUNCH)
            for headers in ({}, {"Origin": "http://evil.test"})
        ]
        del client.headers["Origin"]
        asked.append(client.get("/console/dagster/graphql", params={"query": LAUNCH}).status_code)
    assert asked == [200, 200, 200, 403, 403]


def test_a_websocket_takes_no_mutation_of_a_viewer_and_ends_with_its_key(service: Service) -> None:
    made = service.post("/auth/api-keys", {"name": "watcher", "scopes": ["etl:read"]})
    url, socket = f"http://127.0.0.1:{service.port}", f"ws://127.0.0.1:{service.port}/console/dagster/graphql"
    with closing(sign_in(url, made["key"])) as viewer:
        headers = {"Origin": url, "Cookie": f"{SESSION_COOKIE}={viewer.cookies[SESSION_COOKIE]}"}
    options: dict[str, Any] = {"additional_headers": headers, "subprotocols": ["graphql-ws"], "proxy": None}
    with connect(socket, **options) as opened:
        opened.send(json.dumps({"type": "connection_init"}))
        assert json.loads(opened.recv(PATIENCE_SECONDS))["type"] == "connection_ack"
        opened.send(json.dumps({"type": "start", "id": "1", "payload": {"query": LAUNCH}}))
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(PATIENCE_SECONDS)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, "by HTTP" in closed.value.rcvd.reason) == (1008, True)
    with connect(socket, **options) as opened:
        with service.client() as client:
            assert client.delete(f"/auth/api-keys/{made['id']}").is_success
        with pytest.raises(ConnectionClosed):
            opened.recv(PATIENCE_SECONDS)


def test_other_organizations_are_shown_to_super_admins_alone(server: Server) -> None:
    url = str(server.client.base_url).rstrip("/")
    owner, other = server.caller("proxied", "admin"), server.caller("beside", "super_admin")
    answer = sign_in(url, owner.key).get("/console/dagster/runs")
    assert (answer.status_code, "every organization" in answer.text) == (403, True)
    assert sign_in(url, other.key).get("/console/dagster/runs").status_code == 503  # no Dagster runs beside this server
