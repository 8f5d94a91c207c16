"""Delivery of events to webhooks: repeated for a day, and isolated so that a slow receiver delays no other."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import SystemRandom

import structlog
from sqlalchemy import ColumnElement, Select, delete, select, update
from sqlalchemy.orm import Session
from standardwebhooks import Webhook as Signer

from core.errors import SpindleError
from core.events.recorder import build_payload
from core.infra.background import OutageLog
from core.infra.database import Database, execute_update
from core.infra.encryption import KeyRing
from core.infra.http_client import HttpResponse, send_request
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.infra.validation import format_time
from core.tables import Delivery, ExecutionEvent, Webhook, now
from core.webhooks.repository import WebhookRepository, bind_webhook

POLL_SECONDS = 0.5
CLEANUP_SECONDS = 300.0
LEASE = timedelta(seconds=60)
LIFETIME = timedelta(days=1)
RETENTION = timedelta(days=7)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(hours=2)
PAUSE_FACTOR = 3
BATCH = 200
# failing webhooks have threads of their own, and one request at a time
MAX_PER_WEBHOOK = {False: 4, True: 1}  # by whether the webhook is failing
MAX_PER_ORGANIZATION = {False: 12, True: 6}  # fewer than the threads: an organization may have any number of webhooks
THREADS = {False: 16, True: 8}
GONE = 410
TEST = "webhook.test"

log = structlog.get_logger()
_random = SystemRandom()


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A delivery together with its webhook."""

    delivery: Delivery
    webhook: Webhook

    @property
    def failing(self) -> bool:
        return self.webhook.failing_since is not None

    @property
    def body(self) -> bytes:
        return json.dumps(self.delivery.payload, separators=(",", ":"), ensure_ascii=False).encode()


class Dispatcher:
    """Sends deliveries that are due, on its own threads. Several dispatchers may run: each leases what it sends."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._pools = {failing: ThreadPoolExecutor(threads) for failing, threads in THREADS.items()}
        self._running_by_webhook: Counter[str] = Counter()
        self._running_by_organization: Counter[tuple[str, bool]] = Counter()
        self._lock = threading.Lock()
        self._cleaned_at = 0.0

    def run(self, shutdown: threading.Event) -> None:
        """Deliver until shutdown, then finish the requests that are running."""
        outages = OutageLog()
        while not shutdown.wait(POLL_SECONDS):
            outages.run_step(self.deliver_due)
            if time.monotonic() - self._cleaned_at > CLEANUP_SECONDS:
                outages.run_step(self.clean_up)
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)

    def deliver_due(self) -> None:
        """Lease what is due, as far as there are slots, and hand it to the threads without waiting for them."""
        for dispatch in self._lease_due(now()):
            self._pools[dispatch.failing].submit(self._deliver, dispatch)

    def clean_up(self) -> None:
        delete_old(self._database, now())
        self._cleaned_at = time.monotonic()

    def _lease_due(self, at: datetime) -> Sequence[Dispatch]:
        with self._database.read() as session:
            if session.execute(self._select_due(at).limit(1)).first() is None:
                return ()
        with self._database.write() as session:
            in_order = self._select_due(at).order_by(Delivery.available_at, Delivery.id).limit(BATCH)
            rows = session.execute(in_order.with_for_update(of=Delivery, skip_locked=True)).tuples().all()
            leased = [dispatch for dispatch in (Dispatch(*row) for row in rows) if self._take_slot(dispatch)]
            for dispatch in leased:
                dispatch.delivery.available_at = at + LEASE
        return leased

    def _select_due(self, at: datetime) -> Select[tuple[Delivery, Webhook]]:
        """Select due deliveries, without those of webhooks and organizations that have no free slot."""
        with self._lock:
            running = dict(self._running_by_webhook)
            full = [
                key for key, count in self._running_by_organization.items() if count >= MAX_PER_ORGANIZATION[key[1]]
            ]
        conditions: list[ColumnElement[bool]] = []
        for failing in (False, True):
            busy = [webhook_id for webhook_id, count in running.items() if count >= MAX_PER_WEBHOOK[failing]]
            owners = [owner for owner, is_failing in full if is_failing is failing]
            state = Webhook.failing_since.is_not(None) if failing else Webhook.failing_since.is_(None)
            conditions.append(state & Webhook.id.not_in(busy) & Webhook.organization_id.not_in(owners))
        query = select(Delivery, Webhook).join(Webhook, Webhook.id == Delivery.webhook_id)
        due = (Delivery.state == "PENDING", Delivery.available_at <= at, Webhook.enabled)
        return query.where(*due, conditions[0] | conditions[1])

    def _take_slot(self, dispatch: Dispatch) -> bool:
        webhook_id, organization = dispatch.webhook.id, (dispatch.webhook.organization_id, dispatch.failing)
        with self._lock:
            if self._running_by_webhook[webhook_id] >= MAX_PER_WEBHOOK[dispatch.failing]:
                return False
            if self._running_by_organization[organization] >= MAX_PER_ORGANIZATION[dispatch.failing]:
                return False
            self._running_by_webhook[webhook_id] += 1
            self._running_by_organization[organization] += 1
            return True

    def _deliver(self, dispatch: Dispatch) -> None:
        try:
            send_once(self._settings, self._database, dispatch)
        except SpindleError as error:  # its lease expires, and it is sent again
            log.warning("not delivered", delivery=dispatch.delivery.id, reason=error.sentence)
        except Exception:  # the pool would drop it
            log.exception("not delivered", delivery=dispatch.delivery.id)
        finally:
            with self._lock:
                self._running_by_webhook -= Counter([dispatch.webhook.id])
                self._running_by_organization -= Counter([(dispatch.webhook.organization_id, dispatch.failing)])


def send_test_event(
    settings: Settings, database: Database, organization_id: str, project_id: str, webhook_id: str
) -> str:
    """Send a test event once, whether or not the webhook is enabled, and return the id of the delivery."""
    with database.write() as session:
        webhook = WebhookRepository(session, organization_id).get(project_id, webhook_id)
        data = {"projectId": project_id, "webhookId": webhook_id}
        delivery = Delivery(webhook_id=webhook.id, type=TEST, payload=build_payload(TEST, data, now()), state="FAILED")
        session.add(delivery)
    send_once(settings, database, Dispatch(delivery, webhook), last=True)
    return delivery.id


def send_once(settings: Settings, database: Database, dispatch: Dispatch, *, last: bool = False) -> None:
    """Send the delivery once and record the result; `last` permits no further attempt."""
    at = now()
    response = _send(settings, dispatch, at)
    _record_attempt(database, dispatch, response, at, last=last)


def _send(settings: Settings, dispatch: Dispatch, at: datetime) -> HttpResponse:
    """Send the delivery; an error before the request counts as a failed attempt too."""
    try:
        headers = sign(KeyRing(load_service_key(settings)), dispatch, at)
        return send_request(settings, "POST", dispatch.webhook.url, headers, dispatch.body)
    except SpindleError as error:
        log.warning("not sent", delivery=dispatch.delivery.id, reason=error.sentence)
        return HttpResponse(None, b"", error.sentence, 0)
    except Exception:
        log.exception("not sent", delivery=dispatch.delivery.id)
        return HttpResponse(None, b"", "It could not be sent because of an internal error, which is in the log.", 0)


def sign(key_ring: KeyRing, dispatch: Dispatch, at: datetime) -> dict[str, str]:
    """Return the headers of Standard Webhooks; for a day after a rotation, with a signature by each secret."""
    webhook, delivery = dispatch.webhook, dispatch.delivery
    secrets = [key_ring.decrypt(webhook.secret, bind_webhook(webhook, "secret"))]
    if webhook.previous_secret and webhook.previous_until and webhook.previous_until > at:
        secrets.append(key_ring.decrypt(webhook.previous_secret, bind_webhook(webhook, "previous_secret")))
    signatures = [Signer(secret).sign(delivery.id, at, dispatch.body.decode()) for secret in secrets]
    return {
        "Content-Type": "application/json",
        "webhook-id": delivery.id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def compute_pause(failures: int) -> timedelta:
    """Return the pause after so many failed attempts: from 5 s, tripled up to two hours, with jitter.

    The pauses are stored with the delivery and survive the process, so no retry library schedules them.
    """
    pause = min(FIRST_PAUSE * PAUSE_FACTOR ** min(failures - 1, 10), LONGEST_PAUSE)
    return pause * _random.uniform(0.9, 1.1)


def delete_old(database: Database, at: datetime) -> None:
    """Delete events and deliveries that are older than a week."""
    with database.write() as session:
        for table in (ExecutionEvent, Delivery):
            execute_update(session, delete(table).where(table.created_at < at - RETENTION))


def _record_attempt(
    database: Database, dispatch: Dispatch, response: HttpResponse, at: datetime, *, last: bool
) -> None:
    """Store the attempt; disable a webhook that has failed for a day or whose receiver answers 410."""
    failure = _describe_failure(response)
    attempt = {
        "at": format_time(at),
        "status": response.status,
        "error": failure,
        "milliseconds": response.milliseconds,
    }
    with database.write() as session:
        webhook = session.get(Webhook, dispatch.webhook.id, with_for_update=True)
        delivery = session.get(Delivery, dispatch.delivery.id, with_for_update=True)
        if delivery is None or webhook is None:  # deleted meanwhile
            return
        delivery.tries = [*delivery.tries, attempt]
        if failure is None:
            delivery.state, delivery.delivered_at = "DELIVERED", now()
            _set_failing_since(session, webhook, None)
            return
        delivery.available_at = now() + compute_pause(len(delivery.tries))
        expired = last or delivery.available_at > delivery.created_at + LIFETIME
        delivery.state = "FAILED" if expired else "PENDING"
        if not last:
            _set_failing_since(session, webhook, webhook.failing_since or at)
            _disable_if_dead(webhook, response, failure, at)
        if not webhook.enabled:
            pending = update(Delivery).where(Delivery.webhook_id == webhook.id, Delivery.state == "PENDING")
            execute_update(session, pending.values(state="FAILED"))


def _set_failing_since(session: Session, webhook: Webhook, since: datetime | None) -> None:
    """Set the time without touching `updated_at`, because this is no edit of the webhook."""
    if webhook.failing_since != since:
        statement = update(Webhook).where(Webhook.id == webhook.id)
        execute_update(session, statement.values(failing_since=since, updated_at=Webhook.updated_at))
        session.refresh(webhook)


def _disable_if_dead(webhook: Webhook, response: HttpResponse, failure: str, at: datetime) -> None:
    since = webhook.failing_since or at
    if response.status == GONE:
        webhook.enabled, webhook.disabled_reason = False, "The receiver answered 410: it is gone."
    elif at - since >= LIFETIME:
        webhook.enabled = False
        webhook.disabled_reason = f"Nothing could be delivered since {format_time(since)}. Last: {failure}"


def _describe_failure(response: HttpResponse) -> str | None:
    """Return the reason why the attempt failed; None if it succeeded."""
    if response.ok:
        return None
    if response.status is None:
        return response.error or "There was no answer."
    if 300 <= response.status < 400:
        return f"It answered {response.status}; redirects are not followed."
    return f"It answered {response.status}."
