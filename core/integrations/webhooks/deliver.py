"""Delivery of events to webhooks: signed by Standard Webhooks, and ended for receivers that are gone."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from sqlalchemy import Select, delete, select, update
from sqlalchemy.orm import Session, aliased
from standardwebhooks import Webhook as Signer

from core.infra.database import Database, execute_update
from core.infra.dispatcher import LIFETIME, Dispatch, send_once
from core.infra.encryption import KeyRing
from core.infra.http_client import send_request
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.infra.validation import format_time
from core.integrations.webhooks.repository import WebhookRepository, bind_webhook
from core.lifecycle.executions.events import build_payload
from core.tables import Delivery, ExecutionEvent, Webhook, now
from pipelines.http_client.client import HttpResponse

GONE = 410
TEST = "webhook.test"


class WebhookQueue:
    """The deliveries of events, as the dispatcher sends them: of an execution's, each after those before it."""

    messages = Delivery
    receivers = Webhook

    def select(self) -> Select[tuple[Delivery, Webhook]]:
        earlier = aliased(Delivery)
        waits = select(earlier.id).where(
            earlier.webhook_id == Delivery.webhook_id,
            earlier.execution_id == Delivery.execution_id,
            earlier.state == "PENDING",
            earlier.created_at < Delivery.created_at,
        )
        query = select(Delivery, Webhook).join(Webhook, Webhook.id == Delivery.webhook_id)
        return query.where(Webhook.enabled, ~waits.exists())

    def send(self, settings: Settings, database: Database, dispatch: Dispatch, at: datetime) -> HttpResponse:
        headers = sign(KeyRing(load_service_key(settings)), dispatch, at)
        return send_request(settings, "POST", cast(Webhook, dispatch.receiver).url, headers, dispatch.body)

    def handle_failure(self, session: Session, dispatch: Dispatch, response: HttpResponse, failure: str) -> None:
        """Disable a webhook that has failed for a day or whose receiver answers 410."""
        webhook = cast(Webhook, dispatch.receiver)
        _disable_if_dead(webhook, response, failure)
        if not webhook.enabled:
            pending = update(Delivery).where(Delivery.webhook_id == webhook.id, Delivery.state == "PENDING")
            execute_update(session, pending.values(state="FAILED"))


def delete_old_events(session: Session, before: datetime, limit: int | None) -> int:
    """Delete events and deliveries that were made before a time, at most `limit` of each; return their number."""
    return sum(
        execute_update(
            session, delete(table).where(table.id.in_(select(table.id).where(table.created_at < before).limit(limit)))
        )
        for table in (ExecutionEvent, Delivery)
    )


def send_test_event(
    settings: Settings, database: Database, organization_id: str, project_id: str, webhook_id: str
) -> str:
    """Send a test event once, whether or not the webhook is enabled, and return the id of the delivery."""
    with database.write() as session:
        webhook = WebhookRepository(session, organization_id).get(project_id, webhook_id)
        data = {"projectId": project_id, "webhookId": webhook_id}
        delivery = Delivery(webhook_id=webhook.id, type=TEST, payload=build_payload(TEST, data, now()), state="FAILED")
        session.add(delivery)
    send_once(settings, database, WebhookQueue(), Dispatch(delivery, webhook), last=True)
    return delivery.id


def sign(key_ring: KeyRing, dispatch: Dispatch, at: datetime) -> dict[str, str]:
    """Return the headers of Standard Webhooks; for a day after a rotation, with a signature by every secret."""
    webhook, delivery = cast(Webhook, dispatch.receiver), dispatch.message
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


def _disable_if_dead(webhook: Webhook, response: HttpResponse, failure: str) -> None:
    at = now()
    since = webhook.failing_since or at
    if response.status == GONE:
        webhook.enabled, webhook.disabled_reason = False, "The receiver answered 410: it is gone."
    elif at - since >= LIFETIME:
        webhook.enabled = False
        webhook.disabled_reason = f"Nothing could be delivered since {format_time(since)}. Last: {failure}"
