"""Webhooks: a project's events are sent to the addresses that it names."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.concurrency import OUTSIDE
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, ExpectedOf, TagOf
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
from core.webhooks.deliver import try_out
from core.webhooks.repository import Webhooks

router = APIRouter(prefix="/webhooks", tags=["webhooks"], route_class=KeyRoute)
WebhookId = Annotated[str, Path(alias="webhookId", description="Id of the webhook.")]


@router.get("", summary="List the webhooks of a project", responses=answers(404))
def list_webhooks(project_id: ProjectId, caller: Reader, services: ServicesOf, page: PageOf) -> list[WebhookRecord]:
    with services.database.read() as session:
        repository = Webhooks(session, caller.organization_id)
        webhooks = page.linked(repository.list(project_id, limit=page.limit, after=page.after))
        return [WebhookRecord.model_validate(webhook) for webhook in webhooks]


@router.post(
    "",
    summary="Have the events of a project's executions sent to an address",
    description="Each event is posted as `{type, timestamp, data}`, signed as Standard Webhooks has it (webhook-id, "
    "webhook-timestamp, webhook-signature), and again with growing pauses for a day until it is answered with a 2xx. "
    "It may come more than once, always under the same webhook-id. After a day without success, or a 410, the "
    "webhook is disabled and says why.",
    responses={**TAGGED, **answers(404, 409)},
)
def create_webhook(
    project_id: ProjectId, body: WebhookCreate, caller: Writer, services: ServicesOf, key_ring: KeyRingOf, tag: TagOf
) -> WebhookWithSecret:
    with services.database.write() as session:
        repository = Webhooks(session, caller.organization_id)
        webhook, secret = repository.create(services.settings, key_ring, project_id, body.values())
        tag.put(webhook)
        return with_secret(webhook, secret)


@router.get("/{webhookId}", summary="Read a webhook", responses={**TAGGED, **answers(404)})
def read_webhook(
    project_id: ProjectId, webhook_id: WebhookId, caller: Reader, services: ServicesOf, tag: TagOf
) -> WebhookRecord:
    with services.database.read() as session:
        webhook = Webhooks(session, caller.organization_id).get(project_id, webhook_id)
        tag.put(webhook)
        return WebhookRecord.model_validate(webhook)


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
    expected: ExpectedOf,
) -> WebhookRecord:
    with services.database.write() as session:
        repository = Webhooks(session, caller.organization_id)
        expected.hold(session, caller, repository.get(project_id, webhook_id))
        changed = repository.update(services.settings, project_id, webhook_id, body.values())
        expected.put(changed)
        return WebhookRecord.model_validate(changed)


@router.delete("/{webhookId}", summary="Delete a webhook with its deliveries", responses=answers(404, 412))
def delete_webhook(
    project_id: ProjectId, webhook_id: WebhookId, caller: Writer, services: ServicesOf, expected: ExpectedOf
) -> Nothing:
    with services.database.write() as session:
        repository = Webhooks(session, caller.organization_id)
        expected.hold(session, caller, repository.get(project_id, webhook_id))
        repository.delete(project_id, webhook_id)
    return Nothing()


@router.post(
    "/{webhookId}/rotate",
    summary="Give a webhook a new secret",
    description="For 24 hours everything is signed with the old secret as well.",
    responses={**TAGGED, **answers(404, 409)},
)
def rotate_webhook_secret(
    project_id: ProjectId, webhook_id: WebhookId, caller: Writer, services: ServicesOf, key_ring: KeyRingOf, tag: TagOf
) -> WebhookWithSecret:
    with services.database.write() as session:
        webhook, secret = Webhooks(session, caller.organization_id).rotate(key_ring, project_id, webhook_id)
        tag.put(webhook)
        return with_secret(webhook, secret)


@router.post(
    "/{webhookId}/test",
    summary="Send a test event to a webhook, once, and tell what came of it",
    responses=answers(404, 409),
)
def test_webhook(project_id: ProjectId, webhook_id: WebhookId, caller: Writer, services: ServicesOf) -> DeliveryRecord:
    with OUTSIDE.seat(caller.organization_id):
        delivery_id = try_out(services.settings, services.database, caller.organization_id, project_id, webhook_id)
    with services.database.read() as session:
        repository = Webhooks(session, caller.organization_id)
        return delivery_record(repository.delivery(project_id, webhook_id, delivery_id))


@router.get(
    "/{webhookId}/deliveries", summary="List what was sent to a webhook, newest first, a week long",
    responses=answers(404),
)  # fmt: skip
def list_deliveries(
    project_id: ProjectId, webhook_id: WebhookId, caller: Reader, services: ServicesOf, page: PageOf
) -> list[DeliveryRecord]:
    with services.database.read() as session:
        repository = Webhooks(session, caller.organization_id)
        deliveries = repository.deliveries(project_id, webhook_id, limit=page.limit, before=page.after)
        page.link([delivery.id for delivery in deliveries])
        return [delivery_record(delivery) for delivery in deliveries]
