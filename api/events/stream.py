"""A stream of Server-Sent Events: read from the database as they come, and ended when nobody takes them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import structlog
from fastapi import Response
from starlette.concurrency import run_in_threadpool
from starlette.types import Message, Receive, Scope, Send

from api.kit.concurrency import ConcurrencyLimiter
from core.errors import NotFound, Unauthorized, Unavailable
from core.events.service import Event, EventBatch
from core.identity.api_keys import Identity
from core.infra.background import OutageLog

POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
SLOWEST_SECONDS = 15.0
RECONNECT_MS = 2000
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

log = structlog.get_logger()


REFUSAL = "Too many streams are open. Close one, or try again in a moment."
OF_KEYS = ConcurrencyLimiter(20, 200, REFUSAL)
OF_ORGANIZATIONS = ConcurrencyLimiter(50, 200, REFUSAL)  # many keys of one leave room for others


class EventStream(Response):
    """Sends what `read` finds after the last event, until it says that nothing will follow.

    `check` raises Unauthorized once the caller's key is no longer valid.
    """

    media_type = "text/event-stream"

    def __init__(
        self, caller: Identity, read: Callable[[int | None], EventBatch], check: Callable[[], object], after: int | None
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._caller = caller
        self._read = read
        self._check = check
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with OF_KEYS.acquire(self._caller.key_id), OF_ORGANIZATIONS.acquire(self._caller.organization_id):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            gone = asyncio.create_task(_disconnected(receive))
            try:
                await self._follow(send, gone)
                await send({"type": "http.response.body", "body": b""})
            except TimeoutError:
                log.warning("a stream was not read", key=self._caller.key_id)
            finally:
                gone.cancel()

    async def _follow(self, send: Send, gone: asyncio.Task[None]) -> None:
        await _push(send, _beginning(self._after))
        said = checked = time.monotonic()
        outages = OutageLog()
        while not gone.done():
            try:
                if time.monotonic() - checked >= HEARTBEAT_SECONDS:  # also where events leave no silence
                    await run_in_threadpool(self._check)
                    checked = time.monotonic()
                batch = await run_in_threadpool(self._read, self._after)
                for event in batch.events:
                    await _push(send, _text(event))
                    self._after, said = event.id, time.monotonic()
                if batch.ended:
                    return
                if time.monotonic() - said >= HEARTBEAT_SECONDS:
                    await _push(send, ": heartbeat\n\n")
                    said = time.monotonic()
            except (NotFound, Unauthorized):  # it was deleted, or the key was revoked
                return
            except Unavailable as error:
                outages.report_failure("read", error.sentence)
            else:
                outages.report_success("read")
                if batch.more:
                    continue
            await asyncio.wait([gone], timeout=POLL_SECONDS)


async def _push(send: Send, text: str) -> None:
    """Raises TimeoutError when the other side has not taken what was sent before."""
    message: Message = {"type": "http.response.body", "body": text.encode(), "more_body": True}
    await asyncio.wait_for(send(message), SLOWEST_SECONDS)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _beginning(after: int | None) -> str:
    """An id without data is no event, and what a reconnect before the first event sends as its `Last-Event-ID`."""
    begins_at = "" if after is None else f"id: {after}\n"
    return f"{begins_at}retry: {RECONNECT_MS}\n\n"


def _text(event: Event) -> str:
    data = json.dumps(event.data, separators=(",", ":"))
    return f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n"
