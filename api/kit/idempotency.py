"""The header `Idempotency-Key`: a repeated request gets the result of the first one instead of making a second record.

Operations that begin executions take the key as `Idempotent`. The others that make a record have the dependency
`REPLAYED`: their route answers a repeated request with the stored answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any

import anyio
from fastapi import Depends, Header, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import Message, Receive

from api.kit.services import get_services
from core.definitions.identity.api_keys import Identity
from core.infra import idempotency
from core.infra.encryption import KeyRing
from core.infra.idempotency import IdempotencyKey, hash_parts
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.tables import IdempotencyRecord

HEADER = "Idempotency-Key"
MAX_KEY = 255
REPLAYED_HEADER = "Idempotent-Replayed"
STORED_HEADERS = ("content-type", "etag", "location")
KeyHeader = Annotated[
    str | None,
    Header(
        alias=HEADER,
        max_length=MAX_KEY,
        description="The same key and body within 24 hours return the first result and make nothing new; another body "
        "is a conflict, and so is a repetition before the first request was answered.",
    ),
]


async def _parse_idempotency_key(request: Request, key: KeyHeader = None) -> IdempotencyKey | None:
    identity: Identity = request.state.identity
    if key is None:
        return None
    operation = json.dumps(_describe_operation(request), sort_keys=True)
    return IdempotencyKey.from_request(identity.organization_id, key, operation, _normalize(await request.body()))


async def _declare_key(key: KeyHeader = None) -> None:
    """Validate the header; the route itself has used it."""


Idempotent = Annotated[IdempotencyKey | None, Depends(_parse_idempotency_key)]
REPLAYED = Depends(_declare_key)


async def answer_once(request: Request, handle: Callable[[Request], Awaitable[Response]]) -> Response:
    """Handle the request, or return the stored answer of an earlier one with its Idempotency-Key.

    A failed request is not stored: its repetition is executed.
    """
    text = request.headers.get(HEADER)
    if text is None or len(text) > MAX_KEY:
        return await handle(request)
    services, identity = get_services(request), request.state.identity
    # the answer may contain a secret, so only the API key that sent the request gets it again
    operation = json.dumps([identity.key_id, *_describe_operation(request), request.url.query], sort_keys=True)
    key = IdempotencyKey(identity.organization_id, hash_parts(text.encode("utf-8", "replace")), "")
    body = _HashedBody(request)

    def claim() -> IdempotencyRecord | None:
        with services.database.write(durable=False) as session:
            return idempotency.claim(session, key)

    def finish(response: Response | None) -> None:
        with services.database.write(durable=False) as session:
            if response is None:
                idempotency.release(session, key)
            else:
                answered = replace(key, fingerprint=body.compute_fingerprint(operation))
                key_ring = _load_key_ring(services.settings)
                idempotency.store_answer(session, answered, _serialize(response), key_ring)

    record = await run_in_threadpool(claim)
    if record is not None:
        await body.read()
        asked = replace(key, fingerprint=body.compute_fingerprint(operation))
        return _deserialize(idempotency.open_answer(record, asked, _load_key_ring(services.settings)))
    try:
        response = await handle(body.request)
    except Exception:
        await run_in_threadpool(finish, None)
        raise
    await body.read()
    with anyio.CancelScope(shield=True):
        await run_in_threadpool(finish, response if response.status_code < 300 else None)
    return response


class _HashedBody:
    """A request whose body is hashed as it is read, because an upload is larger than memory.

    JSON counts alike in any form, and a form whatever boundary its client has chosen.
    """

    def __init__(self, request: Request) -> None:
        self._receive: Receive = request.receive
        self._is_form = request.headers.get("content-type", "").startswith("multipart/")
        boundary = request.headers.get("content-type", "").partition("boundary=")[2].partition(";")[0]
        self._boundary = boundary.strip().strip('"').encode("latin-1") if self._is_form else b""
        self._hash = hashlib.sha256()
        self._rest = b""
        self._complete = False
        self.request = Request(request.scope, self._receive_hashed)

    async def read(self) -> None:
        """Read the part of the body that the handler has left."""
        while not self._complete:
            await self._receive_hashed()

    def compute_fingerprint(self, operation: str) -> str:
        if not self._is_form:
            return hash_parts(operation.encode(), _normalize(self._rest))
        self._hash.update(self._rest.replace(self._boundary, b"") if self._boundary else self._rest)
        self._rest = b""
        return hash_parts(operation.encode(), self._hash.digest())

    async def _receive_hashed(self) -> Message:
        message = await self._receive()
        self._complete = not message.get("more_body", False)
        self._rest += message.get("body", b"")
        if self._boundary:  # the last bytes may be the beginning of a boundary
            *parts, last = self._rest.split(self._boundary)
            kept = len(self._boundary) - 1
            for part in parts:
                self._hash.update(part)
            self._hash.update(last[: max(len(last) - kept, 0)])
            self._rest = last[max(len(last) - kept, 0) :]
        return message


def _describe_operation(request: Request) -> list[Any]:
    """Return the route's name and the ids of the path, which are the same in both spellings of the path."""
    return [request.scope["route"].name, request.path_params]


def _normalize(body: bytes) -> bytes:
    """Return JSON without whitespace and with sorted keys, so that equal bodies are equal bytes; others as they are."""
    try:
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return body


def _serialize(response: Response) -> str:
    headers = {name: value for name in STORED_HEADERS if (value := response.headers.get(name)) is not None}
    return json.dumps([response.status_code, headers, bytes(response.body).decode()])


def _deserialize(answer: str) -> Response:
    status, headers, body = json.loads(answer)
    return Response(body, status, {**headers, REPLAYED_HEADER: "true"})


def _load_key_ring(settings: Settings) -> KeyRing:
    return KeyRing(load_service_key(settings))
