"""Readiness of an instance, and the reserved port of its code server."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import pytest

from cli.up import find_missing, reserve_port

BEGAN = 1_000.0


def dagster(heartbeat: float | None, *, healthy: bool = True, repositories: int = 1) -> dict[str, Any]:
    """An answer of the webserver."""
    status = {"healthy": healthy, "lastHeartbeatTime": heartbeat}
    nodes = [{"name": "__repository__"}] * repositories
    return {"instance": {"daemonHealth": {"daemonStatus": status}}, "repositoriesOrError": {"nodes": nodes}}


def list_missing(answer: dict[str, Any]) -> list[str]:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"data": answer} if request.url.path == "/graphql" else "ok")

    async def ask() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as http:
            return await find_missing(http, "http://api", "http://dagster", BEGAN)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        (dagster(BEGAN), []),
        (dagster(BEGAN - 1), ["Dagster"]),  # an earlier daemon's heartbeat
        (dagster(None, healthy=False), ["Dagster"]),
        (dagster(BEGAN, healthy=False), ["Dagster"]),
        (dagster(BEGAN, repositories=0), ["Dagster"]),
    ],
)
def test_readiness_requires_a_heartbeat_since_the_start(answer: dict[str, Any], missing: list[str]) -> None:
    assert list_missing(answer) == missing


def test_the_reserved_port_refuses_connections_until_the_code_server_listens() -> None:
    with reserve_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port), reuse_port=True):
            for _ in range(20):
                socket.create_connection(("127.0.0.1", port)).close()
