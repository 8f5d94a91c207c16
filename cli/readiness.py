"""When an instance is ready: everything it consists of answers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

from core.infra.settings import Settings

POLL_SECONDS = 0.1
PATIENCE_SECONDS = 30
DAGSTER_READY = """{ instance { daemonHealth {
    daemonStatus(daemonType: "QUEUED_RUN_COORDINATOR") { healthy lastHeartbeatTime } } }
  repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"""


async def wait_until_ready(settings: Settings) -> None:
    """Returns once all parts answer; tells every half minute which of them it still waits for."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104 - compared, not bound
    api, dagster = f"http://{host}:{settings.port}", f"http://127.0.0.1:{settings.ui_port}"
    began, told = time.time(), time.monotonic()
    async with httpx.AsyncClient(timeout=5, trust_env=False) as http:
        while missing := await _missing(http, api, dagster, began):
            if time.monotonic() - told > PATIENCE_SECONDS:
                told = time.monotonic()
                print(f"Still waiting for {' and '.join(missing)}.", flush=True)
            await asyncio.sleep(POLL_SECONDS)


async def _missing(http: httpx.AsyncClient, api: str, dagster: str, began: float) -> list[str]:
    parts = {"the API": _api_answers(http, api), "Dagster": _dagster_answers(http, dagster, began)}
    answers = await asyncio.gather(*parts.values())
    return [name for name, answer in zip(parts, answers, strict=True) if not answer]


async def _api_answers(http: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await http.get(f"{url}/readyz")).is_success
    except httpx.HTTPError:
        return False


async def _dagster_answers(http: httpx.AsyncClient, url: str, began: float) -> bool:
    """The webserver has loaded the code server's definitions, and the daemon takes runs from the queue.

    It has said so since `began`: to Dagster a daemon is healthy for half an hour after it was last heard of.
    """
    try:
        data: Any = (await http.post(f"{url}/graphql", json={"query": DAGSTER_READY})).json()["data"]
        daemon, repositories = data["instance"]["daemonHealth"]["daemonStatus"], data["repositoriesOrError"]
        return bool(daemon["healthy"] and daemon["lastHeartbeatTime"] >= began and repositories["nodes"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError):  # no answer yet, or one that lacks a part
        return False
