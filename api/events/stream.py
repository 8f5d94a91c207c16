"""A stream of Server-Sent Events, polled from the database. A client that does not read it is disconnected.

Streams of one organization about the same record share their polls, and the texts of events.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import structlog
from fastapi import Response
from starlette.concurrency import run_in_threadpool
from starlette.types import Message, Receive, Scope, Send

from api.events.shared_reads import SharedReads
from core.definitions.identity.api_keys import Identity
from core.errors import NotFound, Unauthorized, Unavailable
from core.infra.background import OutageLog
from core.infra.concurrency import ConcurrencyLimiter
from core.lifecycle.events.service import Event, EventBatch

POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
SLOWEST_SECONDS = 15.0
RECONNECT_MS = 2000
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

log = structlog.get_logger()


REFUSAL = "Too many streams are open. Close one, or try again in a moment."
OF_KEYS = ConcurrencyLimiter(20, 500, REFUSAL)
OF_ORGANIZATIONS = ConcurrencyLimiter(250, 500, REFUSAL)  # so that one with many keys leaves room for others


@dataclass(frozen=True, slots=True)
class _Texts:
    """The events of a batch by their ids, as they are sent."""

    events: Sequence[tuple[int, bytes]]
    more: bool
    ended: bool


_READS = SharedReads[_Texts](POLL_SECONDS)


class EventStream(Response):
    """Sends the events that `read` returns after the last one, until a batch is marked as the end.

    Streams of the caller's organization with an equal `topic` read the same. `check` raises Unauthorized once the
    caller's key is no longer valid.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        caller: Identity,
        topic: Hashable,
        read: Callable[[int | None], EventBatch],
        check: Callable[[], object],
        after: int | None,
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._caller = caller
        self._topic = (caller.organization_id, topic)
        self._read = read
        self._check = check
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with OF_KEYS.acquire(self._caller.key_id), OF_ORGANIZATIONS.acquire(self._caller.organization_id):
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            disconnect = asyncio.create_task(_wait_for_disconnect(receive))
            try:
                await self._follow(send, disconnect)
                await send({"type": "http.response.body", "body": b""})
            except TimeoutError:
                log.warning("a stream was not read", key=self._caller.key_id)
            finally:
                disconnect.cancel()

    async def _follow(self, send: Send, disconnect: asyncio.Task[None]) -> None:
        await _push(send, _format_beginning(self._after))
        sent_at = checked_at = time.monotonic()
        outages = OutageLog()
        while not disconnect.done():
            try:
                if time.monotonic() - checked_at >= HEARTBEAT_SECONDS:  # also while events arrive all the time
                    await run_in_threadpool(self._check)
                    checked_at = time.monotonic()
                batch = await _READS.read((self._topic, self._after), self._read_texts)
                for id_, text in batch.events:
                    await _push(send, text)
                    self._after, sent_at = id_, time.monotonic()
                if batch.ended:
                    return
                if time.monotonic() - sent_at >= HEARTBEAT_SECONDS:
                    await _push(send, b": heartbeat\n\n")
                    sent_at = time.monotonic()
            except (NotFound, Unauthorized):  # the execution was deleted, or the key revoked
                return
            except Unavailable as error:
                outages.report_failure("read", error.sentence)
            else:
                outages.report_success("read")
                if batch.more:
                    continue
            await asyncio.wait([disconnect], timeout=POLL_SECONDS)

    def _read_texts(self) -> _Texts:
        batch = self._read(self._after)
        return _Texts([(each.id, _format_event(each)) for each in batch.events], batch.more, batch.ended)


async def _push(send: Send, text: bytes) -> None:
    """Send a part of the body; raise TimeoutError when the client does not read the parts before."""
    message: Message = {"type": "http.response.body", "body": text, "more_body": True}
    await asyncio.wait_for(send(message), SLOWEST_SECONDS)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _format_beginning(after: int | None) -> bytes:
    """Return the retry interval, and an id without data: no event, but the `Last-Event-ID` of an early reconnect."""
    begins_at = "" if after is None else f"id: {after}\n"
    return f"{begins_at}retry: {RECONNECT_MS}\n\n".encode()


def _format_event(event: Event) -> bytes:
    data = json.dumps(event.data, separators=(",", ":"))
    return f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n".encode()
