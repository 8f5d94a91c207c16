"""What ends with a session: its pages at once, its streams of events and its WebSocket within one heartbeat."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Thread
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection, serve

from api.console import dagster
from api.events import stream
from api.kit.auth import CONSOLE_HEADER, SESSION_COOKIE
from core.tables import ApiKey, now
from tests.support.api import BASE, Api, Server, open_session, start_server
from tests.support.oidc_provider import OidcProvider
from tests.support.service import PATIENCE_SECONDS

OF_CONSOLE = {CONSOLE_HEADER: "1"}
SIGN_IN = "/console/sign-in/provider"


@pytest.fixture(scope="module")
def office(provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service of one organization, whose Dagster UI says nothing."""

    def listen(socket: ServerConnection) -> None:
        for _ in socket:
            pass

    settings = provider.settings(oidc_groups="viewers=default:viewer,editors=default:editor,guests=default")
    with serve(listen, "127.0.0.1", 0, subprotocols=[dagster.PROTOCOL]) as server:  # pyright: ignore[reportArgumentType]
        Thread(target=server.serve_forever, daemon=True).start()
        port = server.socket.getsockname()[1]
        with start_server(tmp_path_factory.mktemp("office"), ui_port=port, **settings) as office:
            yield office
        server.shutdown()


@pytest.fixture(scope="module")
def admin(office: Server) -> Api:
    return office.administrator()


@pytest.fixture(scope="module")
def events(admin: Api) -> str:
    return f"{BASE}/projects/id/{admin.project('watched')}/events"


@contextmanager
def open_client(office: Server) -> Generator[httpx.Client]:
    url = str(office.client.base_url).rstrip("/")
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, headers={"Origin": url}) as client:
        yield client


def enter(client: httpx.Client, provider: OidcProvider, subject: str, group: str) -> None:
    provider.set_person(subject, group)
    address = client.get(SIGN_IN).headers["Location"]
    assert client.get(provider.allow(address, subject)).status_code == 303


def enter_with_own_key(client: httpx.Client, provider: OidcProvider, subject: str) -> str:
    """Sign in with a personal key; return its id."""
    enter(client, provider, subject, "guests")
    body = {"name": "own", "expiresAt": (now() + timedelta(days=1)).isoformat()}
    made = client.post(f"{BASE}/auth/people/me/api-keys", json=body, headers=OF_CONSOLE).json()
    assert client.post("/console/sign-in", data={"key": made["key"]}).status_code == 303
    return made["id"]


@contextmanager
def open_socket(client: httpx.Client) -> Generator[ClientConnection]:
    headers = {"Origin": client.headers["Origin"], "Cookie": f"{SESSION_COOKIE}={client.cookies[SESSION_COOKIE]}"}
    address = f"{client.headers['Origin'].replace('http', 'ws')}{dagster.PREFIX}/graphql"
    with connect(address, additional_headers=headers, subprotocols=[dagster.PROTOCOL], proxy=None) as socket:  # pyright: ignore[reportArgumentType]
        yield socket


WAYS = (
    "the person is removed",
    "an admin changes the role",
    "groups change the role",
    "the person signs out",
    "the person signs out at the provider",
    "the person of a personal key is removed",
    "the personal key is revoked",
    "the personal key expires",
)


@pytest.mark.parametrize("way", WAYS)
def test_a_session_ends_with_all_that_it_has_open(
    office: Server, provider: OidcProvider, admin: Api, events: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(dagster, "WATCH_SECONDS", 0.2)
    subject = f"p{WAYS.index(way)}"
    with open_client(office) as client, open_client(office) as other:
        key = enter_with_own_key(client, provider, subject) if "personal key" in way else None
        if key is None:
            enter(client, provider, subject, "guests")
        person = next(each["id"] for each in admin.get("/auth/people") if each["name"] == subject.title())

        def expire() -> None:
            with open_session(office.settings) as session:
                session.get_one(ApiKey, key).expires_at = now()

        logout = {"logout_token": provider.sign_logout(sub=subject)}
        ends: dict[str, Callable[[], Any]] = {
            "removed": lambda: admin.call("DELETE", f"/auth/people/{person}"),
            "admin changes": lambda: admin.put(f"/auth/people/{person}", {"role": "editor"}),
            "groups change": lambda: enter(other, provider, subject, "editors"),
            "signs out": lambda: client.post("/console/sign-out"),
            "at the provider": lambda: other.post(f"{SIGN_IN}/sign-out", data=logout),
            "revoked": lambda: admin.call("DELETE", f"/auth/api-keys/{key}"),
            "expires": expire,
        }
        [*_, end] = [act for name, act in ends.items() if name in way]
        token = {"Cookie": f"{SESSION_COOKIE}={client.cookies[SESSION_COOKIE]}"}
        with client.stream("GET", events, headers=OF_CONSOLE) as said, open_socket(client) as socket:
            assert said.status_code == 200
            lines = said.iter_lines()
            assert next(lines).startswith("id")
            end()
            if "expires" not in way:  # other processes, and clocks, are noticed within five seconds
                assert httpx.get(f"{client.base_url}/console", headers=token).status_code == 401
            for _ in lines:
                pass
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(PATIENCE_SECONDS)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == dagster.CLOSED_BY_POLICY
