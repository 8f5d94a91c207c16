"""Operations on the notification rules of a project of the caller's organization."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.infra.preconditions import Versioned, add_etag
from core.integrations.notifications.models import RuleCreate, RuleUpdate
from core.integrations.notifications.repository import RuleRepository
from core.tables import Notification, NotificationRule


def list_of_project(session: Session, caller: Identity, project_id: str) -> Sequence[NotificationRule]:
    return RuleRepository(session, caller.organization_id).list(project_id)


def get(session: Session, caller: Identity, project_id: str, name: str) -> Versioned[NotificationRule]:
    return add_etag(RuleRepository(session, caller.organization_id).get(project_id, name))


def create(session: Session, caller: Identity, project_id: str, new: RuleCreate) -> Versioned[NotificationRule]:
    return add_etag(RuleRepository(session, caller.organization_id).create(project_id, new))


def update(
    session: Session, caller: Identity, project_id: str, name: str, changes: RuleUpdate, if_match: Collection[str]
) -> Versioned[NotificationRule]:
    rules = RuleRepository(session, caller.organization_id)
    rules.lock(rules.get(project_id, name), if_match)
    return add_etag(rules.update(project_id, name, changes))


def delete(session: Session, caller: Identity, project_id: str, name: str, if_match: Collection[str]) -> None:
    rules = RuleRepository(session, caller.organization_id)
    rules.lock(rules.get(project_id, name), if_match)
    rules.delete(project_id, name)


def list_messages(
    session: Session,
    caller: Identity,
    project_id: str,
    name: str,
    *,
    limit: int | None = None,
    before: str | None = None,
) -> Sequence[Notification]:
    return RuleRepository(session, caller.organization_id).list_messages(project_id, name, limit=limit, before=before)
