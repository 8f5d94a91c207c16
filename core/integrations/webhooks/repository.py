"""The webhooks of projects and their deliveries."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from core.definitions.projects.repository import ProjectRepository
from core.errors import BadInput, Conflict, NotFound
from core.infra.encryption import AssociatedData, KeyRing
from core.infra.http_client import check_target_url
from core.infra.repository import Repository
from core.infra.settings import Settings
from core.infra.validation import is_storable
from core.integrations.webhooks.models import WebhookCreate, WebhookUpdate
from core.lifecycle.executions.events import TYPES
from core.lifecycle.executions.tokens import PREFIX
from core.tables import Delivery, Webhook, new_id, now

MAX_WEBHOOKS = 20
SECRET_BYTES = 32
OVERLAP = timedelta(hours=24)


class WebhookRepository(Repository[Webhook]):
    """The webhooks of one organization's projects. A secret is returned at its creation only."""

    row = Webhook
    noun = "webhook"

    def create(self, settings: Settings, key_ring: KeyRing, project_id: str, new: WebhookCreate) -> tuple[Webhook, str]:
        """Create a webhook; return it and its secret. Raise Conflict when the project has too many."""
        project = ProjectRepository(self.session, self.organization_id).get(project_id)
        columns = _build_columns(settings, new)
        count = self.session.scalar(select(func.count()).where(Webhook.project_id == project.id)) or 0
        if count >= MAX_WEBHOOKS:
            sentence = f"This project has {MAX_WEBHOOKS} webhooks, which is the limit. Delete one first."
            raise Conflict(sentence, code="webhook-limit")
        webhook = Webhook(id=new_id(), organization_id=self.organization_id, project_id=project.id, **columns)
        secret = self._write_secret(webhook, key_ring)
        self.session.add(webhook)
        self.session.flush()
        return webhook, secret

    def list(self, project_id: str, *, limit: int | None = None, after: str | None = None) -> Sequence[Webhook]:
        project = ProjectRepository(self.session, self.organization_id).get(project_id)
        return self._fetch_page(self._select().where(Webhook.project_id == project.id), limit, after)

    def get(self, project_id: str, webhook_id: str) -> Webhook:
        if not is_storable(project_id + webhook_id):
            raise self._not_found()
        return self._fetch_one(self._select().where(Webhook.project_id == project_id, Webhook.id == webhook_id))

    def update(self, settings: Settings, project_id: str, webhook_id: str, changes: WebhookUpdate) -> Webhook:
        """Merge the changes; enabling a webhook or changing its URL clears its failures."""
        webhook, columns = self.get(project_id, webhook_id), _build_columns(settings, changes)
        if changes.enabled or columns.get("url", webhook.url) != webhook.url:
            columns |= {"disabled_reason": None, "failing_since": None}
        return self._apply(webhook, columns)

    def delete(self, project_id: str, webhook_id: str) -> None:
        """Delete the webhook with its deliveries."""
        self.session.delete(self.get(project_id, webhook_id))
        self.session.flush()

    def rotate_secret(self, key_ring: KeyRing, project_id: str, webhook_id: str) -> tuple[Webhook, str]:
        """Create a new secret; for a day, deliveries are signed with the previous one too."""
        webhook = self.get(project_id, webhook_id)
        self.lock(webhook)
        old = key_ring.without_caller_key.decrypt(webhook.secret, bind_webhook(webhook, "secret"))
        webhook.previous_secret = key_ring.without_caller_key.encrypt(old, bind_webhook(webhook, "previous_secret"))
        webhook.previous_until = now() + OVERLAP
        secret = self._write_secret(webhook, key_ring)
        self.session.flush()
        return webhook, secret

    def list_deliveries(
        self, project_id: str, webhook_id: str, *, limit: int | None = None, before: str | None = None
    ) -> Sequence[Delivery]:
        """Return deliveries, newest first; `before` is the last id of the previous page."""
        webhook = self.get(project_id, webhook_id)
        query = select(Delivery).where(Delivery.webhook_id == webhook.id)
        if before is not None:
            query = query.where(Delivery.id < before)
        return self.session.scalars(query.order_by(Delivery.id.desc()).limit(limit)).all()

    def get_delivery(self, project_id: str, webhook_id: str, delivery_id: str) -> Delivery:
        webhook = self.get(project_id, webhook_id)
        found = self.session.get(Delivery, delivery_id) if is_storable(delivery_id) else None
        if found is None or found.webhook_id != webhook.id:
            raise NotFound("There is no delivery with this id.")
        return found

    def _write_secret(self, webhook: Webhook, key_ring: KeyRing) -> str:
        secret = PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
        webhook.secret = key_ring.without_caller_key.encrypt(secret, bind_webhook(webhook, "secret"))
        return secret


def _build_columns(settings: Settings, changes: WebhookUpdate) -> dict[str, Any]:
    columns = changes.to_columns()
    if changes.url is not None:
        columns["url"] = check_target_url(settings, changes.url, "url")
    unknown = sorted({*(changes.events or ())} - {*TYPES})
    if unknown:
        sentence = f"Unknown event: {', '.join(unknown)}. Events are {', '.join(TYPES)}."
        raise BadInput(sentence, code="unknown-event", path="events")
    return columns


def bind_webhook(webhook: Webhook, field: str) -> AssociatedData:
    return AssociatedData(webhook.organization_id, webhook.id, field)
