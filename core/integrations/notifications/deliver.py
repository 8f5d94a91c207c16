"""Delivery of notifications: notices that wait for the pause of their rule become one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import Select, delete, or_, select, update
from sqlalchemy.orm import Session, aliased

from core.definitions.credentials.repository import CredentialRepository, decrypt_fields
from core.definitions.jobs.keys import make_job_key
from core.errors import BadInput
from core.infra.database import Database, execute_update
from core.infra.dispatcher import LIFETIME, Dispatch, send_once
from core.infra.encryption import KeyRing
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.integrations.notifications.channels import CHANNELS, Line, Target, Text, send_text
from core.integrations.notifications.repository import RuleRepository
from core.lifecycle.executions.notices import build_notice
from core.tables import Job, Notification, NotificationRule, now
from pipelines.http_client.client import HttpResponse

MAX_LINES = 20
TEST = "test"
VERBS: Mapping[str, str] = {
    "failed": "failed",
    "recovered": "has recovered",
    "warned": "has a warning",
    "late": "is late",
    "degraded": "is degraded",
    "rows": "has few rows",
    "cost": "was expensive",
    "begin": "did not begin",
    "end": "did not end",
    TEST: "is a test",
}


class NotificationQueue:
    """The messages of rules, as the dispatcher sends them: the oldest of a rule, with all others of the rule."""

    messages = Notification
    receivers = NotificationRule

    def select(self) -> Select[tuple[Notification, NotificationRule]]:
        earlier, rule = aliased(Notification), NotificationRule
        waits = select(earlier.id).where(
            earlier.rule_id == Notification.rule_id, earlier.state == "PENDING", earlier.id < Notification.id
        )
        query = select(Notification, rule).join(rule, rule.id == Notification.rule_id)
        has_paused = or_(rule.next_send_at.is_(None), rule.next_send_at <= now())
        return query.where(rule.enabled, has_paused, ~waits.exists())

    def send(self, settings: Settings, database: Database, dispatch: Dispatch, at: datetime) -> HttpResponse:
        rule, message = cast(NotificationRule, dispatch.receiver), cast(Notification, dispatch.message)
        notices = _gather(database, message.id, rule.id)
        with database.read() as session:
            target = _load_target(session, rule, KeyRing(load_service_key(settings)))
            shown = notices[:MAX_LINES]
            lines = [Line(describe_notice(each), _make_link(session, settings, each)) for each in shown]
            text = Text(lines, len(notices) - len(shown))
        response = send_text(settings, target, text)
        if response.ok and message.type != TEST:
            values = {
                "next_send_at": at + timedelta(seconds=rule.pause_seconds),
                "updated_at": NotificationRule.updated_at,
            }
            with database.write() as session:
                execute_update(session, update(NotificationRule).where(NotificationRule.id == rule.id).values(values))
        return response

    def handle_failure(self, session: Session, dispatch: Dispatch, response: HttpResponse, failure: str) -> None:
        """Give up the notices alone that have been tried for a day; those that came later are tried on."""
        message = cast(Notification, dispatch.message)
        notices = message.payload["notices"]
        kept = [each for each in notices if datetime.fromisoformat(each["at"]) + LIFETIME >= message.available_at]
        if message.state != "FAILED" or not kept:
            return
        given_up = {"notices": [each for each in notices if each not in kept]}
        values = {name: getattr(message, name) for name in ("rule_id", "type", "state", "tries", "created_at")}
        session.add(Notification(**values, payload=given_up))
        message.state, message.type, message.payload = "PENDING", kept[0]["event"], {"notices": kept}
        message.created_at = datetime.fromisoformat(kept[0]["at"])
        message.tries = [each for each in message.tries if each["at"] >= kept[0]["at"]]


def send_test(settings: Settings, database: Database, organization_id: str, project_id: str, name: str) -> Notification:
    """Send a test message once, whether or not the rule is enabled, and return it with its result."""
    with database.write() as session:
        rule = RuleRepository(session, organization_id).get(project_id, name)
        notice = build_notice(TEST, f"The rule {name}", "Spindle reaches this target.")
        message = Notification(rule_id=rule.id, type=TEST, payload={"notices": [notice]}, state="FAILED")
        session.add(message)
    send_once(settings, database, NotificationQueue(), Dispatch(message, rule), last=True)
    with database.read() as session:
        return session.get_one(Notification, message.id)


def delete_old_notifications(session: Session, before: datetime, limit: int | None) -> int:
    """Delete at most `limit` messages that were made before a time; return their number."""
    old = select(Notification.id).where(Notification.created_at < before).limit(limit)
    return execute_update(session, delete(Notification).where(Notification.id.in_(old)))


def _gather(database: Database, message_id: str, rule_id: str) -> Sequence[Mapping[str, Any]]:
    """Add the notices of all pending messages of the rule to this one, which is leased; return them, oldest first."""
    with database.write() as session:
        message = session.get_one(Notification, message_id, with_for_update=True)
        if message.type == TEST:
            return message.payload["notices"]
        waiting = (Notification.rule_id == rule_id, Notification.state == "PENDING", Notification.id != message_id)
        others = session.scalars(select(Notification).where(*waiting).order_by(Notification.id)).all()
        for other in others:
            message.payload = {"notices": [*message.payload["notices"], *other.payload["notices"]]}
            session.delete(other)
        return message.payload["notices"]


def _load_target(session: Session, rule: NotificationRule, key_ring: KeyRing) -> Target:
    """Return the rule's target; raise BadInput or Conflict where its credential cannot be used any more."""
    credential = CredentialRepository(session, rule.organization_id).get_enabled(rule.cloud_credential_id)
    if credential.provider not in CHANNELS:
        raise BadInput(f"A credential of {credential.provider} is no target of notifications.", code="unknown-target")
    return Target(credential.provider, decrypt_fields(credential, key_ring), rule.recipients, rule.template)


def describe_notice(notice: Mapping[str, Any]) -> str:
    """Return the sentence of a notice."""
    return f"{notice['subject']} {VERBS[notice['event']]}: {notice['reason']}"


def _make_link(session: Session, settings: Settings, notice: Mapping[str, Any]) -> str:
    """Return the page of the notice's run in Dagster; without one that of its asset, or Dagster's first page."""
    if run_id := notice.get("runId"):
        return f"{settings.dagster.url}/runs/{run_id}"
    job = session.get(Job, job_id) if (job_id := notice.get("jobId")) else None
    return "/".join([settings.dagster.url, *(("assets", *make_job_key(session, job)) if job else ())])
