"""Webhooks: a project's events, posted to the addresses that it names."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.concurrency import OUTBOUND
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import Nothing, ProjectId
from api.kit.services import ServicesOf
from api.webhooks.schemas import (
    DeliveryRecord,
    WebhookCreate,
    WebhookRecord,
    WebhookUpdate,
    WebhookWithSecret,
    delivery_record,
    with_secret,
)

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=KeyRoute)
WebhookId = Annotated[str, Path(alias="webhookId", description="Id of the webhook.")]


@router.get("", summary="List the webhooks of a project", responses=answers(404))
def list_webhooks(project_id: ProjectId, caller: Reader, services: ServicesOf, page: PageOf) -> list[WebhookRecord]:
    """Return the project's webhooks, oldest first, without their secrets."""
    webhooks = services.webhooks.list(caller, project_id, limit=page.limit, after=page.after)
    return [WebhookRecord.model_validate(webhook) for webhook in page.link_rows(webhooks)]


@router.post(
    "",
    summary="Have the events of a project's executions sent to an address",
    description="Each event is posted as `{type, timestamp, data}` and signed by Standard Webhooks (webhook-id, "
    "webhook-timestamp, webhook-signature). Until a 2xx answers it, it is repeated for a day with growing pauses, "
    "always under the same webhook-id. After a day without success, or a 410, the webhook is disabled, and "
    "`disabledReason` gives the reason.",
    responses={**TAGGED, **answers(404, 409)},
)
def create_webhook(
    project_id: ProjectId,
    body: WebhookCreate,
    caller: Writer,
    services: ServicesOf,
    key_ring: KeyRingOf,
    response: Response,
) -> WebhookWithSecret:
    created = services.webhooks.create(caller, project_id, body.values(), key_ring)
    return with_secret(*set_etag(response, created))


@router.get("/{webhookId}", summary="Read a webhook", responses={**TAGGED, **answers(404)})
def read_webhook(
    project_id: ProjectId, webhook_id: WebhookId, caller: Reader, services: ServicesOf, response: Response
) -> WebhookRecord:
    """Return a webhook, without its secret."""
    return WebhookRecord.model_validate(set_etag(response, services.webhooks.get(caller, project_id, webhook_id)))


@router.put(
    "/{webhookId}",
    summary="Change a webhook; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 412)},
)
def update_webhook(
    project_id: ProjectId,
    webhook_id: WebhookId,
    body: WebhookUpdate,
    caller: Writer,
    services: ServicesOf,
    if_match: IfMatch,
    response: Response,
) -> WebhookRecord:
    """Change the fields that the body has. `enabled: true` begins to deliver again after the service has given up."""
    updated = services.webhooks.update(caller, project_id, webhook_id, body.values(), if_match)
    return WebhookRecord.model_validate(set_etag(response, updated))


@router.delete("/{webhookId}", summary="Delete a webhook with its deliveries", responses=answers(404, 412))
def delete_webhook(
    project_id: ProjectId, webhook_id: WebhookId, caller: Writer, services: ServicesOf, if_match: IfMatch
) -> Nothing:
    """Delete a webhook. Events that were not delivered yet are not sent."""
    services.webhooks.delete(caller, project_id, webhook_id, if_match)
    return Nothing()


@router.post(
    "/{webhookId}/rotate",
    summary="Give a webhook a new secret",
    description="For 24 hours everything is signed with the old secret as well.",
    responses={**TAGGED, **answers(404, 409)},
)
def rotate_webhook_secret(
    project_id: ProjectId,
    webhook_id: WebhookId,
    caller: Writer,
    services: ServicesOf,
    key_ring: KeyRingOf,
    response: Response,
) -> WebhookWithSecret:
    rotated = services.webhooks.rotate_secret(caller, project_id, webhook_id, key_ring)
    return with_secret(*set_etag(response, rotated))


@router.post(
    "/{webhookId}/test",
    summary="Send a test event to a webhook once and return the result",
    responses=answers(404, 409),
)
def test_webhook(project_id: ProjectId, webhook_id: WebhookId, caller: Writer, services: ServicesOf) -> DeliveryRecord:
    """Send an event of type `webhook.test` once, without repetition, and return the delivery with the receiver's
    answer."""
    with OUTBOUND.acquire(caller.organization_id):
        return delivery_record(services.webhooks.send_test(caller, project_id, webhook_id))


@router.get(
    "/{webhookId}/deliveries", summary="List the deliveries of the last week, newest first", responses=answers(404)
)
def list_deliveries(
    project_id: ProjectId, webhook_id: WebhookId, caller: Reader, services: ServicesOf, page: PageOf
) -> list[DeliveryRecord]:
    """Return the deliveries of a webhook with all of their tries. They are kept for a week."""
    deliveries = services.webhooks.list_deliveries(caller, project_id, webhook_id, limit=page.limit, before=page.after)
    page.link([delivery.id for delivery in deliveries])
    return [delivery_record(delivery) for delivery in deliveries]
