"""Middleware of every request: encoded slashes, HEAD, size limits, RateLimit headers, access log, unexpected errors."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import unquote
from uuid import uuid4

import anyio
import anyio.lowlevel
import structlog
from starlette.convertors import CONVERTOR_TYPES, PathConvertor, StringConvertor
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.kit.errors import http_error_response
from api.kit.request_metrics import RequestMetrics

MAX_BODY = 4 * 2**20
MAX_PATH = 8 * 2**10
STALL_SECONDS = 30.0  # between two parts of a body
RATE_HEADERS = (b"ratelimit-limit", b"ratelimit-remaining", b"ratelimit-reset")
REQUEST_ID = b"x-request-id"
_REQUEST_ID = re.compile(rb"[\w.:/+=-]{1,128}")
PROBES = frozenset({"/livez", "/readyz"})
SLASH = "\ud800"  # means an encoded slash; half a surrogate pair is not in any decoded path
log = structlog.get_logger()


class EncodedSlashes:
    """Lets `%2F` in a path belong to a name instead of separating two segments."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        encoded: bytes = scope.get("raw_path") or b""
        if b"%2F" in encoded or b"%2f" in encoded:
            segments = [unquote(segment).replace("/", SLASH) for segment in encoded.decode("ascii").split("/")]
            scope = {**scope, "path": "/".join(segments)}
        await self._app(scope, receive, send)


class HeadRequests:
    """Answers HEAD with the headers of GET, except below `acting`, whose GETs change something."""

    def __init__(self, app: ASGIApp, acting: str) -> None:
        self._app = app
        self._acting = acting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].startswith(self._acting):
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            await send({"type": "http.response.body"})
            if message.get("more_body"):  # a stream may be long, or never end
                request.cancel()
                await anyio.lowlevel.checkpoint()

        with anyio.CancelScope() as request:
            await self._app({**scope, "method": "GET"}, receive, send_without_body)


class NameConvertor(StringConvertor):
    """Gives path parameters their slashes back."""

    def convert(self, value: str) -> str:
        return value.replace(SLASH, "/")


class WholePathConvertor(PathConvertor):
    """Does the same for parameters that have slashes of their own."""

    def convert(self, value: str) -> str:
        return value.replace(SLASH, "/")


CONVERTOR_TYPES.update({"str": NameConvertor(), "path": WholePathConvertor()})  # `{parameter}` and `{parameter:path}`


class SizeLimits:
    """Refuses paths and bodies beyond the limits, and bodies that stall.

    `larger` has higher limits by patterns of how paths begin. These routes check the Content-Length themselves, since
    they store that a request was refused.
    """

    def __init__(self, app: ASGIApp, larger: Mapping[str, int] = MappingProxyType({})) -> None:
        self._app = app
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._get_body_limit(scope["path"])
        if len(scope["path"]) > MAX_PATH:
            await http_error_response(414)(scope, receive, send)
        elif limit == MAX_BODY and get_content_length(scope) > limit:
            await http_error_response(413)(scope, receive, send)
        else:
            await self._app(scope, _limit_body(receive, limit), send)

    def _get_body_limit(self, path: str) -> int:
        return next((limit for start, limit in self._larger.items() if re.match(start, path)), MAX_BODY)


class RateHeaders:
    """Adds the RateLimit headers to the answer of every authenticated request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            allowance = scope.get("state", {}).get("allowance")
            if message["type"] == "http.response.start" and allowance is not None:
                left = (allowance.limit, allowance.remaining, allowance.reset_seconds)
                message["headers"] += [(name, b"%d" % value) for name, value in zip(RATE_HEADERS, left, strict=True)]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class AccessLog:
    """Logs method, path, status, duration, key id and request id of requests, never other headers or bodies.

    The request id is that of the header X-Request-ID, else a new one; the answer has it, and all lines about it.
    """

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status, request_id = time.perf_counter(), 0, _get_request_id(scope)

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (REQUEST_ID, request_id)]
            await send(message)

        scope.setdefault("state", {})
        structlog.contextvars.bind_contextvars(request=request_id.decode())  # requests do not share a context
        try:
            await self._app(scope, receive, send_and_record)
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            if status:
                raise
            await http_error_response(500)(scope, receive, send_and_record)
        if scope["path"] in PROBES and status < 400:  # orchestrators probe every second
            return
        seconds = time.perf_counter() - started
        self._metrics.observe(scope["method"], _name_route(scope), status, seconds)
        identity = scope["state"].get("identity")
        log.info(
            "request",
            method=scope["method"],
            path=scope["path"],
            status=status,
            milliseconds=round(seconds * 1000, 1),
            organization=identity and identity.organization_id,
            key=identity and identity.key_id,
        )


def _name_route(scope: Scope) -> str | None:
    """Return the path with the names of its parameters in place of their values; None where no route was found."""
    if "route" not in scope:
        return None
    values = {str(value): name for name, value in scope.get("path_params", {}).items()}
    segments = scope["path"].replace(SLASH, "/").split("/")
    if not values.keys() <= {*segments}:  # one has slashes
        return getattr(scope["route"], "path", None)
    return "/".join(f"{{{values[each]}}}" if each in values else each for each in segments)


def _get_request_id(scope: Scope) -> bytes:
    given = next((value for name, value in scope["headers"] if name == REQUEST_ID), b"")
    return given if _REQUEST_ID.fullmatch(given) else uuid4().hex.encode()


def get_content_length(scope: Scope) -> int:
    """Return the announced size of a request's body, 0 where nothing usable is announced."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0


def _limit_body(receive: Receive, limit: int) -> Receive:
    size, complete = 0, False

    async def receive_limited() -> Message:
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

    return receive_limited
