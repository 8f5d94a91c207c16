"""Delivering: each event is posted until its receiver takes it, for a day; a slow receiver keeps no other waiting."""

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
from core.infra.background import Outages
from core.infra.database import Database, changed
from core.infra.encryption import KeyRing
from core.infra.http_client import Answer, send
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.tables import Delivery, ExecutionEvent, Webhook, now
from core.webhooks.repository import Webhooks, bind_webhook

POLL_SECONDS = 0.5
TIDY_SECONDS = 300.0
TAKEN = timedelta(seconds=60)
LIFETIME = timedelta(days=1)
KEPT = timedelta(days=7)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(hours=2)
GROWTH = 3
BATCH = 200
AT_ONCE = 4  # of one webhook; of one that is failing a single one, among its like
THREADS = {False: 16, True: 8}  # those for failing webhooks are their own
OF_ORGANIZATION = {False: 12, True: 6}  # so many of the threads, for it may have webhooks without end
GONE = 410
TEST = "webhook.test"

log = structlog.get_logger()
_random = SystemRandom()


@dataclass(frozen=True, slots=True)
class Parcel:
    """A delivery with the webhook that it goes to."""

    delivery: Delivery
    webhook: Webhook

    @property
    def failing(self) -> bool:
        return self.webhook.failing_since is not None

    @property
    def body(self) -> bytes:
        return json.dumps(self.delivery.payload, separators=(",", ":"), ensure_ascii=False).encode()


class Deliverer:
    """Posts what is due, on threads of its own. Several may run: what one has taken, another leaves."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._pools = {failing: ThreadPoolExecutor(threads) for failing, threads in THREADS.items()}
        self._under_way: Counter[str] = Counter()
        self._of_organizations: Counter[tuple[str, bool]] = Counter()
        self._lock = threading.Lock()
        self._tidied = 0.0

    def run(self, stop: threading.Event) -> None:
        """Until told to stop, then to the end of what is under way; while the database is away it waits."""
        outages = Outages()
        while not stop.wait(POLL_SECONDS):
            outages.surviving(self.deliver_due)
            if time.monotonic() - self._tidied > TIDY_SECONDS:
                outages.surviving(self.tidy)
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)  # waits: who is done with a try writes what came of it

    def deliver_due(self) -> None:
        """Takes what is due, as far as there is room for it, and has it sent; does not wait for it."""
        for parcel in self._take(now()):
            self._pools[parcel.failing].submit(self._deliver, parcel)

    def tidy(self) -> None:
        tidy(self._database, now())
        self._tidied = time.monotonic()

    def _take(self, at: datetime) -> Sequence[Parcel]:
        with self._database.read() as session:
            if session.execute(self._due(at).limit(1)).first() is None:
                return ()
        with self._database.write() as session:
            in_order = self._due(at).order_by(Delivery.available_at, Delivery.id).limit(BATCH)
            found = session.execute(in_order.with_for_update(of=Delivery, skip_locked=True)).tuples().all()
            parcels = [parcel for parcel in (Parcel(*each) for each in found) if self._room(parcel)]
            for parcel in parcels:
                parcel.delivery.available_at = at + TAKEN
        return parcels

    def _due(self, at: datetime) -> Select[tuple[Delivery, Webhook]]:
        """What may be sent now: a webhook that is busy, or failing and slow, leaves its others waiting, and no more."""
        with self._lock:
            busy, organizations = dict(self._under_way), dict(self._of_organizations)
        full = [webhook_id for webhook_id, count in busy.items() if count >= AT_ONCE]
        crowded = [key for key, count in organizations.items() if count >= OF_ORGANIZATION[key[1]]]
        well = Webhook.failing_since.is_(None) & _of_none(crowded, failing=False)
        ill = Webhook.failing_since.is_not(None) & _of_none(crowded, failing=True) & Webhook.id.not_in(list(busy))
        room = Webhook.id.not_in(full) & (well | ill)
        query = select(Delivery, Webhook).join(Webhook, Webhook.id == Delivery.webhook_id)
        return query.where(Delivery.state == "PENDING", Delivery.available_at <= at, Webhook.enabled, room)

    def _room(self, parcel: Parcel) -> bool:
        most = 1 if parcel.failing else AT_ONCE
        webhook_id, organization = parcel.webhook.id, (parcel.webhook.organization_id, parcel.failing)
        with self._lock:
            if self._under_way[webhook_id] >= most:
                return False
            if self._of_organizations[organization] >= OF_ORGANIZATION[parcel.failing]:
                return False
            self._under_way[webhook_id] += 1
            self._of_organizations[organization] += 1
            return True

    def _deliver(self, parcel: Parcel) -> None:
        try:
            attempt(self._settings, self._database, parcel)
        except SpindleError as error:  # it stays due, and is taken again
            log.warning("not delivered", delivery=parcel.delivery.id, reason=error.sentence)
        except Exception:  # nobody else would hear of it
            log.exception("not delivered", delivery=parcel.delivery.id)
        finally:
            with self._lock:
                self._under_way -= Counter([parcel.webhook.id])
                self._of_organizations -= Counter([(parcel.webhook.organization_id, parcel.failing)])


def _of_none(crowded: Sequence[tuple[str, bool]], *, failing: bool) -> ColumnElement[bool]:
    return Webhook.organization_id.not_in([owner for owner, is_failing in crowded if is_failing is failing])


def try_out(settings: Settings, database: Database, organization_id: str, project_id: str, webhook_id: str) -> str:
    """Sends a test event once, whether or not the webhook is enabled; the id of the delivery."""
    with database.write() as session:
        webhook = Webhooks(session, organization_id).get(project_id, webhook_id)
        data = {"projectId": project_id, "webhookId": webhook_id}
        delivery = Delivery(webhook_id=webhook.id, type=TEST, payload=build_payload(TEST, data, now()), state="FAILED")
        session.add(delivery)
    attempt(settings, database, Parcel(delivery, webhook), last=True)
    return delivery.id


def attempt(settings: Settings, database: Database, parcel: Parcel, *, last: bool = False) -> None:
    """Sends the delivery once and notes what came of it; `last` leaves no other try."""
    at = now()
    _note(database, parcel, _sent(settings, parcel, at), at, last=last)


def _sent(settings: Settings, parcel: Parcel, at: datetime) -> Answer:
    """What came of sending it; whatever kept it from being sent is a failed try like any other."""
    try:
        headers = signed_headers(KeyRing(load_service_key(settings)), parcel, at)
        return send(settings, "POST", parcel.webhook.url, headers, parcel.body)
    except SpindleError as error:
        log.warning("not sent", delivery=parcel.delivery.id, reason=error.sentence)
        return Answer(None, b"", error.sentence, 0)
    except Exception:
        log.exception("not sent", delivery=parcel.delivery.id)
        return Answer(None, b"", "It could not be sent, for a reason that the service's log tells.", 0)


def signed_headers(key_ring: KeyRing, parcel: Parcel, at: datetime) -> dict[str, str]:
    """The headers of Standard Webhooks; during a rotation with a signature by each secret."""
    webhook, delivery = parcel.webhook, parcel.delivery
    secrets = [key_ring.decrypt(webhook.secret, bind_webhook(webhook, "secret"))]
    if webhook.previous_secret and webhook.previous_until and webhook.previous_until > at:
        secrets.append(key_ring.decrypt(webhook.previous_secret, bind_webhook(webhook, "previous_secret")))
    signatures = [Signer(secret).sign(delivery.id, at, parcel.body.decode()) for secret in secrets]
    return {
        "Content-Type": "application/json",
        "webhook-id": delivery.id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def pause(tries: int) -> timedelta:
    """How long to wait after so many failed tries: 5 s, growing threefold to two hours, with some jitter."""
    grown = min(FIRST_PAUSE * GROWTH ** min(tries - 1, 10), LONGEST_PAUSE)
    return grown * _random.uniform(0.9, 1.1)


def tidy(database: Database, at: datetime) -> None:
    """Removes events and deliveries that are older than a week."""
    with database.write() as session:
        for table in (ExecutionEvent, Delivery):
            changed(session, delete(table).where(table.created_at < at - KEPT))


def _note(database: Database, parcel: Parcel, answer: Answer, at: datetime, *, last: bool) -> None:
    """Notes the try; a webhook that has failed for a day, or whose receiver says that it is gone, is disabled."""
    failure = _failure(answer)
    told = {"at": at.isoformat(), "status": answer.status, "error": failure, "milliseconds": answer.milliseconds}
    with database.write() as session:
        webhook = session.get(Webhook, parcel.webhook.id, with_for_update=True)
        delivery = session.get(Delivery, parcel.delivery.id, with_for_update=True)
        if delivery is None or webhook is None:  # deleted meanwhile
            return
        delivery.tries = [*delivery.tries, told]
        if failure is None:
            delivery.state, delivery.delivered_at = "DELIVERED", now()
            _set_failing(session, webhook, None)
            return
        following = now() + pause(len(delivery.tries))
        delivery.available_at = following
        over = last or following > delivery.created_at + LIFETIME
        delivery.state = "FAILED" if over else "PENDING"
        if not last:
            _set_failing(session, webhook, webhook.failing_since or at)
            _note_failure(webhook, answer, failure, at)
        if not webhook.enabled:
            stopped = update(Delivery).where(Delivery.webhook_id == webhook.id, Delivery.state == "PENDING")
            changed(session, stopped.values(state="FAILED"))


def _set_failing(session: Session, webhook: Webhook, since: datetime | None) -> None:
    """Notes since when nothing arrives, which is no edit of the webhook."""
    if webhook.failing_since != since:
        noted = update(Webhook).where(Webhook.id == webhook.id)
        changed(session, noted.values(failing_since=since, updated_at=Webhook.updated_at))
        session.refresh(webhook)


def _note_failure(webhook: Webhook, answer: Answer, failure: str, at: datetime) -> None:
    since = webhook.failing_since or at
    if answer.status == GONE:
        webhook.enabled, webhook.disabled_reason = False, "The receiver answered 410: it is gone."
    elif at - since >= LIFETIME:
        webhook.enabled = False
        webhook.disabled_reason = f"Nothing could be delivered since {since.isoformat()}. Last: {failure}"


def _failure(answer: Answer) -> str | None:
    """Why the try has failed, as a sentence."""
    if answer.ok:
        return None
    if answer.status is None:
        return answer.error or "There was no answer."
    if 300 <= answer.status < 400:
        return f"It answered {answer.status}; redirects are not followed."
    return f"It answered {answer.status}."
