"""Operations on webhooks, one transaction each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from core.definitions.identity.api_keys import Identity
from core.exchange.webhooks.deliver import send_test_event
from core.exchange.webhooks.repository import WebhookRepository
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.preconditions import Versioned, compute_etag
from core.infra.settings import Settings
from core.tables import Delivery, Webhook

WithSecret = tuple[Webhook, str]


class WebhookService:
    """Every method works on the webhooks of a project of the caller's organization."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    def list(
        self, caller: Identity, project_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[Webhook]:
        with self._database.read() as session:
            return WebhookRepository(session, caller.organization_id).list(project_id, limit=limit, after=after)

    def get(self, caller: Identity, project_id: str, webhook_id: str) -> Versioned[Webhook]:
        with self._database.read() as session:
            webhook = WebhookRepository(session, caller.organization_id).get(project_id, webhook_id)
            return Versioned(webhook, compute_etag(webhook))

    def create(
        self, caller: Identity, project_id: str, values: Mapping[str, Any], key_ring: KeyRing
    ) -> Versioned[WithSecret]:
        """Create a webhook; the result holds its secret, which is never returned again."""
        with self._database.write() as session:
            webhooks = WebhookRepository(session, caller.organization_id)
            webhook, secret = webhooks.create(self._settings, key_ring, project_id, values)
            return Versioned((webhook, secret), compute_etag(webhook))

    def update(
        self,
        caller: Identity,
        project_id: str,
        webhook_id: str,
        changes: Mapping[str, Any],
        if_match: Collection[str],
    ) -> Versioned[Webhook]:
        with self._database.write() as session:
            webhooks = WebhookRepository(session, caller.organization_id)
            webhooks.lock(webhooks.get(project_id, webhook_id), if_match)
            webhook = webhooks.update(self._settings, project_id, webhook_id, changes)
            return Versioned(webhook, compute_etag(webhook))

    def delete(self, caller: Identity, project_id: str, webhook_id: str, if_match: Collection[str]) -> None:
        with self._database.write() as session:
            webhooks = WebhookRepository(session, caller.organization_id)
            webhooks.lock(webhooks.get(project_id, webhook_id), if_match)
            webhooks.delete(project_id, webhook_id)

    def rotate_secret(
        self, caller: Identity, project_id: str, webhook_id: str, key_ring: KeyRing
    ) -> Versioned[WithSecret]:
        """Create a new secret; for a day, deliveries are signed with the previous one too."""
        with self._database.write() as session:
            webhooks = WebhookRepository(session, caller.organization_id)
            webhook, secret = webhooks.rotate_secret(key_ring, project_id, webhook_id)
            return Versioned((webhook, secret), compute_etag(webhook))

    def send_test(self, caller: Identity, project_id: str, webhook_id: str) -> Delivery:
        """Send a test event once, whether or not the webhook is enabled, and return the delivery."""
        delivery_id = send_test_event(self._settings, self._database, caller.organization_id, project_id, webhook_id)
        with self._database.read() as session:
            webhooks = WebhookRepository(session, caller.organization_id)
            return webhooks.get_delivery(project_id, webhook_id, delivery_id)

    def list_deliveries(
        self,
        caller: Identity,
        project_id: str,
        webhook_id: str,
        *,
        limit: int | None = None,
        before: str | None = None,
    ) -> Sequence[Delivery]:
        with self._database.read() as session:
            webhooks = WebhookRepository(session, caller.organization_id)
            return webhooks.list_deliveries(project_id, webhook_id, limit=limit, before=before)
