"""Sending of messages to their receivers: repeated for a day, and isolated so that a slow receiver delays no other.

A `MessageQueue` defines one kind of messages; webhooks, cron jobs and notifications have one queue each.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Any, Protocol

import structlog
from sqlalchemy import ColumnElement, Select, select, update
from sqlalchemy.orm import Session

from core.errors import SpindleError
from core.infra.background import OutageLog
from core.infra.database import Database, execute_update
from core.infra.heartbeats import Heartbeats
from core.infra.settings import Settings
from core.infra.validation import format_time
from core.tables import Message, Receiver, now
from pipelines.http_client.client import HttpResponse

POLL_SECONDS = 0.5
LEASE = timedelta(seconds=60)
LIFETIME = timedelta(days=1)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(hours=2)
PAUSE_FACTOR = 3
BATCH = 200
# failing receivers have threads of their own, and one request at a time
MAX_PER_RECEIVER = {False: 4, True: 1}  # by whether the receiver is failing
MAX_PER_ORGANIZATION = {False: 12, True: 6}  # fewer than the threads: an organization may have any number of receivers
THREADS = {False: 16, True: 8}

log = structlog.get_logger()
_random = SystemRandom()


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A message together with its receiver."""

    message: Message
    receiver: Receiver

    @property
    def failing(self) -> bool:
        return self.receiver.failing_since is not None

    @property
    def body(self) -> bytes:
        return json.dumps(self.message.payload, separators=(",", ":"), ensure_ascii=False).encode()


class MessageQueue(Protocol):
    """One kind of messages and receivers, in tables of their own."""

    messages: type[Any]
    receivers: type[Any]

    def select(self) -> Select[tuple[Any, Any]]:
        """Select messages with their receivers, except for receivers that get none."""
        ...

    def send(self, settings: Settings, database: Database, dispatch: Dispatch, at: datetime) -> HttpResponse:
        """Send the message once; a SpindleError is recorded as a failed attempt."""
        ...

    def handle_failure(self, session: Session, dispatch: Dispatch, response: HttpResponse, failure: str) -> None:
        """Change message and receiver, which are locked, after a failed attempt has been recorded."""
        ...


class Dispatcher:
    """Sends messages that are due, on its own threads. Several may run: each message is leased to one."""

    def __init__(self, settings: Settings, database: Database, queues: Sequence[MessageQueue]) -> None:
        self._settings = settings
        self._database = database
        self._queues = queues
        self._pools = {failing: ThreadPoolExecutor(threads) for failing, threads in THREADS.items()}
        self._running_by_receiver: Counter[str] = Counter()
        self._running_by_organization: Counter[tuple[str, bool]] = Counter()
        self._lock = threading.Lock()
        self._idle = database.watch_commits()

    def run(self, shutdown: threading.Event) -> None:
        """Deliver until shutdown, then finish the requests that are running."""
        outages, heartbeats = OutageLog(), Heartbeats(self._settings.data)
        while not shutdown.wait(POLL_SECONDS):
            heartbeats.beat("webhooks")
            outages.run_step(self.deliver_due)
        self.finish(cancel_waiting=True)

    def finish(self, *, cancel_waiting: bool = False) -> None:
        """Wait for the requests that are running, and for leased ones unless they are cancelled: others send them."""
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=cancel_waiting)
        self._idle.close()

    def deliver_due(self) -> None:
        """Lease due messages, one per free slot, and hand them to the threads without waiting for them."""
        if self._idle.is_resting():
            return
        with self._database.read() as session:
            pending = [queue for queue in self._queues if _has_pending(session, queue)]
        for queue in pending:
            for dispatch in self._lease_due(queue, now()):
                self._pools[dispatch.failing].submit(self._deliver, queue, dispatch)
        if not pending:
            self._idle.rest()

    def _lease_due(self, queue: MessageQueue, at: datetime) -> Sequence[Dispatch]:
        with self._database.read() as session:
            if session.execute(self._select_due(queue, at).limit(1)).first() is None:
                return ()
        messages = queue.messages
        with self._database.write() as session:
            in_order = self._select_due(queue, at).order_by(messages.available_at, messages.id).limit(BATCH)
            rows = session.execute(in_order.with_for_update(of=messages, skip_locked=True)).tuples().all()
            leased = [dispatch for dispatch in (Dispatch(*row) for row in rows) if self._take_slot(dispatch)]
            for dispatch in leased:
                dispatch.message.available_at = at + LEASE
        return leased

    def _select_due(self, queue: MessageQueue, at: datetime) -> Select[tuple[Any, Any]]:
        """Select due messages, without those of receivers and organizations that have no free slot."""
        with self._lock:
            running = dict(self._running_by_receiver)
            full = [
                key for key, count in self._running_by_organization.items() if count >= MAX_PER_ORGANIZATION[key[1]]
            ]
        messages, receivers = queue.messages, queue.receivers
        conditions: list[ColumnElement[bool]] = []
        for failing in (False, True):
            busy = [receiver_id for receiver_id, count in running.items() if count >= MAX_PER_RECEIVER[failing]]
            owners = [owner for owner, is_failing in full if is_failing is failing]
            state = receivers.failing_since.is_not(None) if failing else receivers.failing_since.is_(None)
            conditions.append(state & receivers.id.not_in(busy) & receivers.organization_id.not_in(owners))
        due = (messages.state == "PENDING", messages.available_at <= at)
        return queue.select().where(*due, conditions[0] | conditions[1])

    def _take_slot(self, dispatch: Dispatch) -> bool:
        receiver_id, organization = dispatch.receiver.id, (dispatch.receiver.organization_id, dispatch.failing)
        with self._lock:
            if self._running_by_receiver[receiver_id] >= MAX_PER_RECEIVER[dispatch.failing]:
                return False
            if self._running_by_organization[organization] >= MAX_PER_ORGANIZATION[dispatch.failing]:
                return False
            self._running_by_receiver[receiver_id] += 1
            self._running_by_organization[organization] += 1
            return True

    def _deliver(self, queue: MessageQueue, dispatch: Dispatch) -> None:
        try:
            send_once(self._settings, self._database, queue, dispatch)
        except SpindleError as error:  # its lease expires, and it is sent again
            log.warning("not delivered", delivery=dispatch.message.id, reason=error.sentence)
        except Exception:  # the pool would drop it
            log.exception("not delivered", delivery=dispatch.message.id)
        finally:
            with self._lock:
                self._running_by_receiver -= Counter([dispatch.receiver.id])
                self._running_by_organization -= Counter([(dispatch.receiver.organization_id, dispatch.failing)])


def _has_pending(session: Session, queue: MessageQueue) -> bool:
    query = select(queue.messages.id).where(queue.messages.state == "PENDING")
    return session.scalar(query.limit(1)) is not None


def send_once(
    settings: Settings, database: Database, queue: MessageQueue, dispatch: Dispatch, *, last: bool = False
) -> None:
    """Send the message once and record the result; `last` permits no further attempt."""
    at = now()
    response = _send(settings, database, queue, dispatch, at)
    _record_attempt(database, queue, dispatch, response, at, last=last)


def _send(
    settings: Settings, database: Database, queue: MessageQueue, dispatch: Dispatch, at: datetime
) -> HttpResponse:
    """Send the message; an error before the request counts as a failed attempt too."""
    try:
        return queue.send(settings, database, dispatch, at)
    except SpindleError as error:
        log.warning("not sent", delivery=dispatch.message.id, reason=error.sentence)
        return HttpResponse(None, b"", error.sentence.rstrip("."), 0)
    except Exception:
        log.exception("not sent", delivery=dispatch.message.id)
        return HttpResponse(None, b"", "it could not be sent because of an internal error, which is in the log", 0)


def compute_pause(failures: int) -> timedelta:
    """Return the pause after so many failed attempts: from 5 s, tripled up to two hours, with jitter.

    The pauses are stored with the message and survive the process, so no retry library schedules them.
    """
    pause = min(FIRST_PAUSE * PAUSE_FACTOR ** min(failures - 1, 10), LONGEST_PAUSE)
    return pause * _random.uniform(0.9, 1.1)


def _record_attempt(
    database: Database, queue: MessageQueue, dispatch: Dispatch, response: HttpResponse, at: datetime, *, last: bool
) -> None:
    """Store the attempt. A message that was given up meanwhile stays so unless this attempt has succeeded."""
    failure = _describe_failure(response)
    attempt = {
        "at": format_time(at),
        "status": response.status,
        "error": failure,
        "milliseconds": response.milliseconds,
    }
    with database.write() as session:
        receiver: Receiver | None = session.get(queue.receivers, dispatch.receiver.id, with_for_update=True)
        message: Message | None = session.get(queue.messages, dispatch.message.id, with_for_update=True)
        if message is None or receiver is None:  # deleted in that time
            return
        message.tries = [*message.tries, attempt]
        if failure is None:
            message.state, message.delivered_at = "DELIVERED", now()
            _set_failing_since(session, receiver, None)
            return
        message.available_at = now() + compute_pause(len(message.tries))
        if last or message.available_at > message.created_at + LIFETIME:
            message.state = "FAILED"
        if not last:
            _set_failing_since(session, receiver, receiver.failing_since or at)
            queue.handle_failure(session, Dispatch(message, receiver), response, failure)


def _set_failing_since(session: Session, receiver: Receiver, since: datetime | None) -> None:
    """Set the time without touching `updated_at`, because this is no edit of the receiver."""
    if receiver.failing_since != since:
        table = type(receiver)
        statement = update(table).where(table.id == receiver.id)
        execute_update(session, statement.values(failing_since=since, updated_at=table.updated_at))
        session.refresh(receiver)


def _describe_failure(response: HttpResponse) -> str | None:
    """Return the reason why the attempt failed; None if it succeeded."""
    if response.ok:
        return None
    if response.status is None:
        return response.error or "There was no answer."
    if 300 <= response.status < 400:
        return f"It answered {response.status}; redirects are not followed."
    return f"It answered {response.status}."
