"""Webhooks as JSON. A secret is returned at its creation only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from api.kit.schemas import Record
from core.tables import Delivery, Notification, Webhook


class WebhookRecord(Record):
    """`disabledReason` says why the service has given up on it; `failingSince` when its failures began."""

    id: str
    """Id of the webhook."""
    project_id: str
    url: str
    """Where events are posted to."""
    description: str | None
    events: list[str]
    """Types of the events that are sent; all when empty."""
    enabled: bool
    """Whether events are sent."""
    disabled_reason: str | None
    """Why the service has given up; null unless it has."""
    failing_since: datetime | None
    """When its failures began; null while it succeeds."""
    created_at: datetime
    updated_at: datetime


class WebhookWithSecret(WebhookRecord):
    """`secret` signs the deliveries (Standard Webhooks) and is not shown again."""

    secret: str
    """Key of the signatures (Standard Webhooks); it is not shown again."""


class Try(Record):
    """One try; without a `status` there was no answer, and `error` says why."""

    at: datetime
    """When it was sent."""
    status: int | None
    """HTTP status of the answer; null without one."""
    error: str | None
    """Why there was no answer; null with one."""
    milliseconds: int
    """Time that the receiver took."""


class DeliveryRecord(Record):
    """`id` is the header webhook-id of every try; `state` is PENDING, DELIVERED or FAILED."""

    id: str
    """Id of the delivery, the header webhook-id of every try."""
    type: str
    """Type of the event."""
    state: str
    """PENDING, DELIVERED or FAILED."""
    payload: dict[str, Any]
    """The body that is posted."""
    tries: list[Try]
    """The tries so far."""
    created_at: datetime
    delivered_at: datetime | None
    """When a 2xx answered it; null before."""
    next_try_at: datetime | None
    """When it is sent again; null when it is not."""


def build_webhook_with_secret(webhook: Webhook, secret: str) -> WebhookWithSecret:
    return WebhookWithSecret(**WebhookRecord.model_validate(webhook).model_dump(), secret=secret)


def build_delivery_record(delivery: Delivery | Notification) -> DeliveryRecord:
    return DeliveryRecord(
        id=delivery.id,
        type=delivery.type,
        state=delivery.state,
        payload=delivery.payload,
        tries=[Try.model_validate(each) for each in delivery.tries],
        created_at=delivery.created_at,
        delivered_at=delivery.delivered_at,
        next_try_at=delivery.available_at if delivery.state == "PENDING" else None,
    )
