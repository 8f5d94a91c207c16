"""The notification rules of projects and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select

from core.definitions.credentials.repository import CredentialRepository
from core.definitions.projects.repository import ProjectRepository
from core.definitions.schedules.cron import parse_cron, parse_timezone
from core.definitions.schedules.times import read_deadline
from core.errors import BadInput, Conflict
from core.infra.repository import Repository
from core.infra.slugs import make_slug
from core.infra.validation import is_storable
from core.integrations.notifications.channels import CHANNELS
from core.integrations.notifications.models import RuleCreate, RuleUpdate
from core.lifecycle.executions.notices import EVENTS
from core.tables import Job, Notification, NotificationRule, new_id, now

MAX_RULES = 20
MAIL, WEBHOOK = "SMTP", "WEBHOOK"


class RuleRepository(Repository[NotificationRule]):
    """The notification rules of one organization's projects, by their names."""

    row = NotificationRule
    noun = "notification rule"

    def create(self, project_id: str, new: RuleCreate) -> NotificationRule:
        """Store a rule. Raise Conflict for a name that is taken, BadInput for one without a condition or target."""
        project = ProjectRepository(self.session, self.organization_id).get(project_id)
        if new.name != make_slug(new.name):
            sentence = (
                f"'{new.name[:80]}' is no name of a rule. Write small letters, digits and single _, as in on_call."
            )
            raise BadInput(sentence, path="name")
        if self._find(project.id, new.name) is not None:
            raise Conflict("The project has a notification rule with this name.", path="name", code="name-taken")
        if (self.session.scalar(select(func.count()).where(self.row.project_id == project.id)) or 0) >= MAX_RULES:
            sentence = f"This project has {MAX_RULES} notification rules, which is the limit. Delete one first."
            raise Conflict(sentence, code="rule-limit")
        defaults = {"events": [], "timezone": "UTC", "recipients": [], "template": {}, "enabled": True}
        rule = NotificationRule(
            id=new_id(), organization_id=self.organization_id, project_id=project.id, pause_seconds=300, **defaults
        )
        self._write(rule, new)
        self.session.add(rule)
        self.session.flush()
        return rule

    def list(self, project_id: str) -> Sequence[NotificationRule]:
        project = ProjectRepository(self.session, self.organization_id).get(project_id)
        query = self._select().where(NotificationRule.project_id == project.id)
        return self.session.scalars(query.order_by(NotificationRule.name)).all()

    def get(self, project_id: str, name: str) -> NotificationRule:
        found = self._find(project_id, name) if is_storable(project_id + name) else None
        if found is None:
            raise self._not_found("name")
        return found

    def update(self, project_id: str, name: str, changes: RuleUpdate) -> NotificationRule:
        """Merge the changes. Raise BadInput for a rule that would have no condition, or no target that can be told."""
        rule = self.get(project_id, name)
        self._write(rule, changes)
        self.session.flush()
        return rule

    def delete(self, project_id: str, name: str) -> None:
        """Delete the rule with its messages."""
        self.session.delete(self.get(project_id, name))
        self.session.flush()

    def list_messages(
        self, project_id: str, name: str, *, limit: int | None = None, before: str | None = None
    ) -> Sequence[Notification]:
        """Return messages, newest first; `before` is the last id of the previous page."""
        query = select(Notification).where(Notification.rule_id == self.get(project_id, name).id)
        if before is not None:
            query = query.where(Notification.id < before)
        return self.session.scalars(query.order_by(Notification.id.desc()).limit(limit)).all()

    def _find(self, project_id: str, name: str) -> NotificationRule | None:
        if not is_storable(name):
            return None
        return self.session.scalar(self._select().where(self.row.project_id == project_id, self.row.name == name))

    def _write(self, rule: NotificationRule, changes: RuleUpdate) -> None:
        """Set the changed fields, once all of the rule has been checked."""
        columns = changes.to_columns()
        values: dict[str, Any] = {
            column.key: columns.get(column.key, getattr(rule, column.key)) for column in self.row.__table__.columns
        }
        unknown = sorted({*values["events"]} - {*EVENTS})
        if unknown:
            sentence = f"Unknown event: {', '.join(unknown)}. Events are {', '.join(EVENTS)}."
            raise BadInput(sentence, code="unknown-event", path="events")
        parse_timezone(values["timezone"])
        for field, path in (("begin_by", "beginBy"), ("end_by", "endBy")):
            if values[field]:
                columns[f"next_{field.removesuffix('_by')}_at"] = next(
                    parse_cron(read_deadline(values[field]), path).iterate(now(), values["timezone"]), None
                )
            elif field in columns:
                columns[f"next_{field.removesuffix('_by')}_at"] = None
        if not any(values[each] for each in ("events", "begin_by", "end_by", "min_row_share", "max_cost")):
            sentence = "The rule never tells anything. Set 'events', 'beginBy', 'endBy', 'minRowShare' or 'maxCost'."
            raise BadInput(sentence, code="missing-field", path="events")
        self._check_job(rule.project_id, values["job_id"])
        if not columns.keys().isdisjoint(("cloud_credential_id", "recipients", "template")):
            self._check_target(values)  # a rule whose credential was deleted can still be switched off
        self._apply(rule, columns)

    def _check_job(self, project_id: str, job_id: str | None) -> None:
        query = select(func.count()).where(Job.project_id == project_id, Job.id == job_id)
        if job_id and not self.session.scalar(query):
            raise BadInput("The project has no job with this id.", path="jobId", code="not-found")

    def _check_target(self, values: dict[str, Any]) -> None:
        target = CredentialRepository(self.session, self.organization_id).get_enabled(values["cloud_credential_id"])
        if target.provider not in CHANNELS:
            sentence = (
                f"A credential of {target.provider} is no target of notifications. Targets are {', '.join(CHANNELS)}."
            )
            raise BadInput(sentence, code="unknown-target", path="cloudCredentialId")
        if (target.provider == MAIL) != bool(values["recipients"]):
            sentence = "Mail needs 'recipients'." if target.provider == MAIL else "Only mail has 'recipients'."
            raise BadInput(sentence, code="missing-field", path="recipients")
        if values["template"] and target.provider != WEBHOOK:
            raise BadInput("Only a target of WEBHOOK has a 'template'.", path="template")
