"""Webhooks as JSON. A secret is returned at its creation only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from api.kit.schemas import Body, Record, example
from core.events.recorder import TYPES
from core.tables import Delivery, Webhook

EventType = Annotated[str, Field(json_schema_extra={"enum": [*TYPES]})]


class WebhookUpdate(Body):
    model_config = example({"url": "https://example.com/hook", "events": ["execution.completed"]})

    url: str | None = Field(default=None, description="An http or https address. Redirects are not followed.")
    description: str | None = None
    events: list[EventType] | None = Field(default=None, description="Which events are sent, all when empty.")
    enabled: bool | None = None


class WebhookCreate(WebhookUpdate):
    url: str = Field(  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
        description="An http or https address. Redirects are not followed."
    )


class WebhookRecord(Record):
    """`disabledReason` says why the service has given up on it; `failingSince` when its failures began."""

    id: str
    project_id: str
    url: str
    description: str | None
    events: list[str]
    enabled: bool
    disabled_reason: str | None
    failing_since: datetime | None
    created_at: datetime
    updated_at: datetime


class WebhookWithSecret(WebhookRecord):
    """`secret` signs what is sent (Standard Webhooks) and is not shown again."""

    secret: str


class Try(Record):
    """One try; without a `status` there was no answer, and `error` says why."""

    at: datetime
    status: int | None
    error: str | None
    milliseconds: int


class DeliveryRecord(Record):
    """`id` is the header webhook-id of every try; `state` is PENDING, DELIVERED or FAILED."""

    id: str
    type: str
    state: str
    payload: dict[str, Any]
    tries: list[Try]
    created_at: datetime
    delivered_at: datetime | None
    next_try_at: datetime | None


def with_secret(webhook: Webhook, secret: str) -> WebhookWithSecret:
    return WebhookWithSecret(**WebhookRecord.model_validate(webhook).model_dump(), secret=secret)


def delivery_record(delivery: Delivery) -> DeliveryRecord:
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
