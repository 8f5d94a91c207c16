"""Operations on the webhooks of a project of the caller's organization."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.preconditions import Versioned, add_etag, compute_etag
from core.infra.settings import Settings
from core.integrations.webhooks.deliver import send_test_event
from core.integrations.webhooks.models import WebhookCreate, WebhookUpdate
from core.integrations.webhooks.repository import WebhookRepository
from core.tables import Delivery, Webhook

WithSecret = tuple[Webhook, str]


def list_of_project(
    session: Session, caller: Identity, project_id: str, *, limit: int | None = None, after: str | None = None
) -> Sequence[Webhook]:
    return WebhookRepository(session, caller.organization_id).list(project_id, limit=limit, after=after)


def get(session: Session, caller: Identity, project_id: str, webhook_id: str) -> Versioned[Webhook]:
    return add_etag(WebhookRepository(session, caller.organization_id).get(project_id, webhook_id))


def create(
    session: Session, settings: Settings, caller: Identity, project_id: str, new: WebhookCreate, key_ring: KeyRing
) -> Versioned[WithSecret]:
    """Create a webhook; the result holds its secret, which is never returned again."""
    webhooks = WebhookRepository(session, caller.organization_id)
    webhook, secret = webhooks.create(settings, key_ring, project_id, new)
    return Versioned((webhook, secret), compute_etag(webhook))


def update(
    session: Session,
    settings: Settings,
    caller: Identity,
    project_id: str,
    webhook_id: str,
    changes: WebhookUpdate,
    if_match: Collection[str],
) -> Versioned[Webhook]:
    webhooks = WebhookRepository(session, caller.organization_id)
    webhooks.lock(webhooks.get(project_id, webhook_id), if_match)
    return add_etag(webhooks.update(settings, project_id, webhook_id, changes))


def delete(session: Session, caller: Identity, project_id: str, webhook_id: str, if_match: Collection[str]) -> None:
    webhooks = WebhookRepository(session, caller.organization_id)
    webhooks.lock(webhooks.get(project_id, webhook_id), if_match)
    webhooks.delete(project_id, webhook_id)


def rotate_secret(
    session: Session, caller: Identity, project_id: str, webhook_id: str, key_ring: KeyRing
) -> Versioned[WithSecret]:
    """Create a new secret; for a day, deliveries are signed with the previous one too."""
    webhook, secret = WebhookRepository(session, caller.organization_id).rotate_secret(key_ring, project_id, webhook_id)
    return Versioned((webhook, secret), compute_etag(webhook))


def send_test(settings: Settings, database: Database, caller: Identity, project_id: str, webhook_id: str) -> Delivery:
    """Send a test event once, whether or not the webhook is enabled, and return the delivery.

    No transaction is open while the receiver answers.
    """
    delivery_id = send_test_event(settings, database, caller.organization_id, project_id, webhook_id)
    with database.read() as session:
        return WebhookRepository(session, caller.organization_id).get_delivery(project_id, webhook_id, delivery_id)


def list_deliveries(
    session: Session,
    caller: Identity,
    project_id: str,
    webhook_id: str,
    *,
    limit: int | None = None,
    before: str | None = None,
) -> Sequence[Delivery]:
    webhooks = WebhookRepository(session, caller.organization_id)
    return webhooks.list_deliveries(project_id, webhook_id, limit=limit, before=before)
