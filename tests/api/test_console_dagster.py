"""What the console hands on to the Dagster UI: requests and messages that are written to pass its checks do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from threading import Thread

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from api.console import dagster
from api.kit.auth import SESSION_COOKIE
from core.definitions.identity.api_keys import create_key
from core.definitions.identity.organizations import find_organization
from tests.support.api import Server, open_session, start_server
from tests.support.service import PATIENCE_SECONDS

PATHS: list[str] = []
MUTATION = "query=mutation%7Ba%7D"
DEEP = "[" * 200_000


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service of one organization, whose Dagster UI keeps the paths of requests."""

    def answer(connection: ServerConnection, request: Request) -> Response | None:
        PATHS.append(request.path)
        return None if "Upgrade" in request.headers else connection.respond(HTTPStatus.OK, "shown")

    def listen(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            for _ in socket:
                pass

    with serve(listen, "127.0.0.1", 0, subprotocols=[dagster.PROTOCOL], process_request=answer) as server:  # pyright: ignore[reportArgumentType]
        Thread(target=server.serve_forever, daemon=True).start()
        with start_server(tmp_path_factory.mktemp("office"), ui_port=server.socket.getsockname()[1]) as office:
            yield office
        server.shutdown()


@pytest.fixture(scope="module")
def viewer(office: Server) -> Iterator[httpx.Client]:
    with open_session(office.settings) as session:
        organization = find_organization(session, "default")
        assert organization is not None
        _, key = create_key(session, organization.id, "viewer", {"etl:read"})
        session.commit()
    url = str(office.client.base_url).rstrip("/")
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, headers={"Origin": url}) as client:
        assert client.post("/console/sign-in", data={"key": key}).status_code == 303
        yield client


@pytest.mark.parametrize(
    "target",
    [
        f"/console/dagster/graphql?{MUTATION}",
        f"/console/dagster/graphql%0A?{MUTATION}",
        f"/console/dagster/graphql/?{MUTATION}",
        f"/console/dagster/./graphql?{MUTATION}",
        f"/console/dagster/a/../graphql?{MUTATION}",
        f"/console/dagster/../../graphql?{MUTATION}",
        "/console/dagster/a/../notebook?path=%2Ftmp%2Fany.ipynb",
        "/console/dagster/./dagit/notebook?path=%2Ftmp%2Fany.ipynb",
        "/console/dagster/notebook%0A?path=%2Ftmp%2Fany.ipynb",
        "/console/dagster/_next/../../../secret",
    ],
)
def test_no_way_of_writing_an_address_passes_the_checks(viewer: httpx.Client, target: str) -> None:
    assert viewer.get("/console/dagster/runs").text.strip() == "shown"
    PATHS.clear()
    question = viewer.build_request("GET", viewer.base_url, extensions={"target": target.encode()})
    assert (viewer.send(question).status_code in (403, 404), PATHS) == (True, [])


def test_files_of_dagster_are_whole_and_kept_by_browsers(viewer: httpx.Client) -> None:
    folder = Path(str(files("dagster_webserver"))) / "webapp/build"
    path = next((folder / "_next/static/css").glob("*.css"))
    address = f"/console/dagster/{path.relative_to(folder)}"
    answers = [viewer.get(address) for _ in range(2)]
    assert [each.content for each in answers] == [path.read_bytes()] * 2
    first = answers[0]
    assert (first.headers["Content-Type"].split(";")[0], "immutable" in first.headers["Cache-Control"]) == (
        "text/css",
        True,
    )
    assert viewer.get(address, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    head = viewer.head(address)
    assert (head.headers["Content-Length"], head.content) == (str(len(first.content)), b"")
    assert viewer.get("/console/dagster/_next/static/css/none.css").status_code == 404


BODIES = (DEEP, f'{{"query": {DEEP}', b"\xff", "[{}]", '{"query": 1}', '{"query": "\\ud800"}')
TOO_LONG = (" " * 300_000 + "{a}", "{" + "a " * 20_000 + "}")


@pytest.mark.parametrize("body", [*BODIES, *(json.dumps({"query": each}) for each in TOO_LONG)], ids=range(8))
def test_a_body_that_cannot_be_read_is_refused(viewer: httpx.Client, body: str | bytes) -> None:
    assert viewer.post("/console/dagster/graphql", content=body).status_code == 400


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"{}", "not bytes"),
        ("{", "no JSON"),
        (DEEP, "too deep"),
        ('{"type": "start", "payload": {"query": "\\ud800"}}', "Invalid character"),
        ('{"type": "start", "payload": {"query": "{a}", "query": "mutation {a}"}}', "by HTTP"),
        ('{"type": "start", "payload": {"query": "fragment A on B {c} mutation D {e} {f}"}}', "by HTTP"),
    ],
    ids=range(6),
)
def test_a_message_that_cannot_be_read_ends_the_websocket(
    viewer: httpx.Client, message: str | bytes, reason: str
) -> None:
    headers = {"Origin": viewer.headers["Origin"], "Cookie": f"{SESSION_COOKIE}={viewer.cookies[SESSION_COOKIE]}"}
    address = f"{viewer.headers['Origin'].replace('http', 'ws')}{dagster.PREFIX}/graphql"
    with connect(address, additional_headers=headers, subprotocols=[dagster.PROTOCOL], proxy=None) as socket:  # pyright: ignore[reportArgumentType]
        for harmless in ("[]", "1", '{"payload": [1]}', '{"payload": "a", "type": "stop"}'):
            socket.send(harmless)
        socket.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE_SECONDS)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, reason in closed.value.rcvd.reason) == (1008, True)
