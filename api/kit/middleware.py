"""Around every request: limits on its size, one line in the log, and a body for whatever nobody expected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import MappingProxyType

import structlog
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.kit.errors import http_error_response

MAX_BODY = 4 * 2**20
MAX_PATH = 8 * 2**10
STALL_SECONDS = 30.0  # between two parts of a body
RATE_HEADERS = (b"ratelimit-limit", b"ratelimit-remaining", b"ratelimit-reset")
PROBES = frozenset({"/livez", "/readyz"})
log = structlog.get_logger()


class Limits:
    """Refuse paths and bodies beyond the limits, and bodies that stall; `larger` has limits of single paths."""

    def __init__(self, app: ASGIApp, larger: Mapping[str, int] = MappingProxyType({})) -> None:
        self._app = app
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif len(scope["path"]) > MAX_PATH:
            await http_error_response(414)(scope, receive, send)
        elif _announced(scope) > (limit := self._limit(scope["path"])):
            await http_error_response(413)(scope, receive, send)
        else:
            await self._app(scope, _counted(receive, limit), send)

    def _limit(self, path: str) -> int:
        return next((limit for prefix, limit in self._larger.items() if path.startswith(prefix)), MAX_BODY)


class RateHeaders:
    """Tells each caller with a key what is left of its requests of this minute."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            allowance = scope.get("state", {}).get("allowance")
            if message["type"] == "http.response.start" and allowance is not None:
                left = (allowance.limit, allowance.remaining, allowance.reset_seconds)
                message["headers"] += [(name, b"%d" % value) for name, value in zip(RATE_HEADERS, left, strict=True)]
            await send(message)

        await self._app(scope, receive, told)


class AccessLog:
    """Logs method, path, status, time and key id of each request; never a header or a body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        scope.setdefault("state", {})
        try:
            await self._app(scope, receive, watched)
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            if status:
                raise
            await http_error_response(500)(scope, receive, watched)
        if scope["path"] in PROBES and status < 400:  # asked every second, for ever
            return
        identity = scope["state"].get("identity")
        log.info(
            "request",
            method=scope["method"],
            path=scope["path"],
            status=status,
            milliseconds=round((time.perf_counter() - started) * 1000, 1),
            organization=identity and identity.organization_id,
            key=identity and identity.key_id,
        )


def _announced(scope: Scope) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0


def _counted(receive: Receive, limit: int) -> Receive:
    size, complete = 0, False

    async def counted() -> Message:
        nonlocal size, complete
        try:
            async with asyncio.timeout(None if complete else STALL_SECONDS):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, headers={"Connection": "close"}) from None
        size += len(message.get("body", b""))
        complete = not message.get("more_body", False)  # later calls wait for the client to disconnect
        if size > limit:
            raise HTTPException(413)
        return message

    return counted
