"""When an instance says that it is ready, and the port that its code server has until then."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import pytest

from cli import readiness, up

BEGAN = 1_000.0


def dagster(heartbeat: float | None, *, healthy: bool = True, repositories: int = 1) -> dict[str, Any]:
    """What the webserver answers."""
    status = {"healthy": healthy, "lastHeartbeatTime": heartbeat}
    nodes = [{"name": "__repository__"}] * repositories
    return {"instance": {"daemonHealth": {"daemonStatus": status}}, "repositoriesOrError": {"nodes": nodes}}


def missing(answer: dict[str, Any]) -> list[str]:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"data": answer} if request.url.path == "/graphql" else "ok")

    async def ask() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as http:
            return await readiness._missing(http, "http://api", "http://dagster", BEGAN)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("answer", "waited_for"),
    [
        (dagster(BEGAN), []),
        (dagster(BEGAN - 1), ["Dagster"]),  # an earlier daemon's, which Dagster believes for half an hour
        (dagster(None, healthy=False), ["Dagster"]),
        (dagster(BEGAN, healthy=False), ["Dagster"]),
        (dagster(BEGAN, repositories=0), ["Dagster"]),
    ],
)
def test_ready_is_what_has_been_heard_of_since_the_start(answer: dict[str, Any], waited_for: list[str]) -> None:
    assert missing(answer) == waited_for


def test_the_code_servers_port_is_nobody_elses_and_answers_once_it_listens() -> None:
    with up._held_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port), reuse_port=True):
            for _ in range(20):
                socket.create_connection(("127.0.0.1", port)).close()
