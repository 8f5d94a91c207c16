"""Webhooks: a project's events, posted to the addresses that it names."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.concurrency import OUTBOUND
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import Nothing, ProjectId
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from api.webhooks.schemas import (
    DeliveryRecord,
    WebhookRecord,
    WebhookWithSecret,
    build_delivery_record,
    build_webhook_with_secret,
)
from core.integrations.webhooks import service as webhooks
from core.integrations.webhooks.models import WebhookCreate, WebhookUpdate

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=KeyRoute)
WebhookId = Annotated[str, Path(alias="webhookId", description="Id of the webhook.")]


@router.get("", summary="List the webhooks of a project", responses=answers(404))
def list_webhooks(project_id: ProjectId, caller: Reader, session: ReadSession, page: PageOf) -> list[WebhookRecord]:
    """Return the project's webhooks, oldest first, without their secrets."""
    found = webhooks.list_of_project(session, caller, project_id, limit=page.limit, after=page.after)
    return [WebhookRecord.model_validate(webhook) for webhook in page.link_rows(found)]


@router.post(
    "",
    dependencies=[REPLAYED],
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
    session: WriteSession,
    services: ServicesOf,
    key_ring: KeyRingOf,
    response: Response,
) -> WebhookWithSecret:
    created = webhooks.create(session, services.settings, caller, project_id, body, key_ring)
    return build_webhook_with_secret(*set_etag(response, created))


@router.get("/{webhookId}", summary="Read a webhook", responses={**TAGGED, **answers(404)})
def read_webhook(
    project_id: ProjectId, webhook_id: WebhookId, caller: Reader, session: ReadSession, response: Response
) -> WebhookRecord:
    """Return a webhook, without its secret."""
    return WebhookRecord.model_validate(set_etag(response, webhooks.get(session, caller, project_id, webhook_id)))


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
    session: WriteSession,
    services: ServicesOf,
    if_match: IfMatch,
    response: Response,
) -> WebhookRecord:
    """Change the fields that the body has. `enabled: true` begins to deliver again after the service has given up."""
    updated = webhooks.update(session, services.settings, caller, project_id, webhook_id, body, if_match)
    return WebhookRecord.model_validate(set_etag(response, updated))


@router.delete("/{webhookId}", summary="Delete a webhook with its deliveries", responses=answers(404, 412))
def delete_webhook(
    project_id: ProjectId, webhook_id: WebhookId, caller: Writer, session: WriteSession, if_match: IfMatch
) -> Nothing:
    """Delete a webhook. Events that were not delivered yet are not sent."""
    webhooks.delete(session, caller, project_id, webhook_id, if_match)
    return Nothing()


@router.post(
    "/{webhookId}/rotate",
    dependencies=[REPLAYED],
    summary="Give a webhook a new secret",
    description="For 24 hours everything is signed with the old secret as well.",
    responses={**TAGGED, **answers(404, 409)},
)
def rotate_webhook_secret(
    project_id: ProjectId,
    webhook_id: WebhookId,
    caller: Writer,
    session: WriteSession,
    key_ring: KeyRingOf,
    response: Response,
) -> WebhookWithSecret:
    rotated = webhooks.rotate_secret(session, caller, project_id, webhook_id, key_ring)
    return build_webhook_with_secret(*set_etag(response, rotated))


@router.post(
    "/{webhookId}/test",
    summary="Send a test event to a webhook once and return the result",
    responses=answers(404, 409),
)
def test_webhook(project_id: ProjectId, webhook_id: WebhookId, caller: Writer, services: ServicesOf) -> DeliveryRecord:
    """Send an event of type `webhook.test` once, without repetition, and return the delivery with the receiver's
    answer."""
    with OUTBOUND.acquire(caller.organization_id):
        return build_delivery_record(
            webhooks.send_test(services.settings, services.database, caller, project_id, webhook_id)
        )


@router.get(
    "/{webhookId}/deliveries", summary="List the deliveries of the last week, newest first", responses=answers(404)
)
def list_deliveries(
    project_id: ProjectId, webhook_id: WebhookId, caller: Reader, session: ReadSession, page: PageOf
) -> list[DeliveryRecord]:
    """Return the deliveries of a webhook with all of their tries. They are kept for a week."""
    deliveries = webhooks.list_deliveries(session, caller, project_id, webhook_id, limit=page.limit, before=page.after)
    page.link([delivery.id for delivery in deliveries])
    return [build_delivery_record(delivery) for delivery in deliveries]
