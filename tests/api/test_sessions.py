"""The transaction of a request: opened around its endpoint, ended before the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import install
from api.kit.sessions import ReadSession, WriteSession
from core.definitions.identity.api_keys import Identity
from core.errors import Conflict
from core.infra.rate_limits import Allowance

router = APIRouter(route_class=KeyRoute)


@router.get("/read")
def read(_caller: Reader, session: ReadSession) -> dict[str, str]:
    return {"session": str(session)}


@router.post("/write")
def write(_caller: Writer, session: WriteSession) -> dict[str, str]:
    return {"session": str(session)}


@router.post("/failing")
def fail(_caller: Writer, session: WriteSession) -> dict[str, str]:
    raise Conflict(f"{session} is of no use.")


@router.get("/none")
def answer(_caller: Reader) -> dict[str, str]:
    return {"session": "none"}


class RecordingDatabase:
    """Stands for the database; its sessions are texts, and `steps` says what became of them."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    @contextmanager
    def read(self) -> Generator[str]:
        yield from self._open("read")

    @contextmanager
    def write(self) -> Generator[str]:
        yield from self._open("write")

    def _open(self, kind: str) -> Generator[str]:
        self.steps.append(f"begin {kind}")
        try:
            yield f"a {kind} session"
        except Exception:
            self.steps.append("roll back")
            raise
        self.steps.append("commit")


def request(method: str, path: str, scopes: frozenset[str]) -> tuple[list[str], httpx.Response]:
    """Call a route; return what happened in order, and the answer."""
    database = RecordingDatabase()
    caller, allowance = Identity("organization", "key", scopes), Allowance(10, 9, 60)
    app = FastAPI()
    app.include_router(router)
    install(app)
    app.state.services = SimpleNamespace(
        database=database,
        keys=SimpleNamespace(get=lambda _key: caller),
        limiter=SimpleNamespace(spend=lambda _key_id, _at: allowance),
    )

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        async def send_recorded(message: Any) -> None:
            if message["type"] == "http.response.start":
                database.steps.append("answer")
            await send(message)

        await app(scope, receive, send_recorded)

    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(serve)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, headers={"X-API-Key": "k"})

    response = asyncio.run(call())
    return database.steps, response


ALL = frozenset({"etl:read", "etl:write"})


@pytest.mark.parametrize(("method", "path", "kind"), [("GET", "/read", "read"), ("POST", "/write", "write")])
def test_the_transaction_ends_before_the_answer(method: str, path: str, kind: str) -> None:
    steps, response = request(method, path, ALL)
    assert steps == [f"begin {kind}", "commit", "answer"]
    assert response.json() == {"session": f"a {kind} session"}


def test_an_error_rolls_back() -> None:
    steps, response = request("POST", "/failing", ALL)
    assert steps == ["begin write", "roll back", "answer"]
    assert response.status_code == 409


def test_a_route_without_a_session_opens_none() -> None:
    steps, response = request("GET", "/none", ALL)
    assert (steps, response.status_code) == (["answer"], 200)


def test_a_key_without_the_scope_opens_none() -> None:
    steps, response = request("POST", "/write", frozenset({"etl:read"}))
    assert (steps, response.status_code) == (["answer"], 403)


def test_a_session_is_no_parameter_of_the_operation() -> None:
    app = FastAPI()
    app.include_router(router)
    operation = app.openapi()["paths"]["/write"]["post"]
    assert "parameters" not in operation
    assert "requestBody" not in operation
