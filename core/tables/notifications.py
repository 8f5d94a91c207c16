"""Rules of notifications, and the messages that they send."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.messages import Message, Receiver


class NotificationRule(Receiver):
    """The events of a project's jobs, or of one of them, that become messages to a target, which is a credential.

    `begin_by` and `end_by` are cron expressions of deadlines, `next_begin_at` and `next_end_at` the first ones that
    have not been checked. `next_send_at` is the end of the pause after a message.
    """

    __tablename__ = "notification_rules"
    __table_args__ = (UniqueConstraint("project_id", "name"),)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"))
    name: Mapped[str]
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    cloud_credential_id: Mapped[str] = mapped_column(String(36))
    events: Mapped[list[str]] = mapped_column(default=list)
    begin_by: Mapped[str | None]
    end_by: Mapped[str | None]
    timezone: Mapped[str] = mapped_column(default="UTC")
    min_row_share: Mapped[float | None]
    max_cost: Mapped[float | None]
    recipients: Mapped[list[str]] = mapped_column(default=list)
    template: Mapped[dict[str, Any]] = mapped_column(default=dict)
    pause_seconds: Mapped[int] = mapped_column(default=300)
    enabled: Mapped[bool] = mapped_column(default=True)
    next_begin_at: Mapped[datetime | None] = mapped_column(index=True)
    next_end_at: Mapped[datetime | None] = mapped_column(index=True)
    next_send_at: Mapped[datetime | None]


class Notification(Message):
    """A message of a rule: the notices in its payload, of which further ones may be added until it is sent."""

    __tablename__ = "notifications"
    __table_args__ = (
        Index("ix_notifications_rule_id_id", "rule_id", "id"),
        Index("ix_notifications_state_available_at", "state", "available_at"),
    )
    rule_id: Mapped[str] = mapped_column(ForeignKey("notification_rules.id", ondelete="CASCADE"))
    type: Mapped[str]
