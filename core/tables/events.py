"""Events of executions, webhooks, and the deliveries of events to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, now
from core.tables.messages import Message, Receiver

COUNT = BigInteger().with_variant(Integer, "sqlite")  # SQLite increments INTEGER keys only


class ExecutionEvent(Base):
    """A change of an execution's state, its latest progress, or what happened to a table without an execution.

    Ids ascend in the order of a project's commits.
    """

    __tablename__ = "execution_events"
    __table_args__ = (
        Index("ix_execution_events_project_id_id", "project_id", "id"),
        Index("ix_execution_events_execution_id_id", "execution_id", "id"),
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(COUNT, primary_key=True, autoincrement=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"))
    execution_id: Mapped[str | None] = mapped_column(ForeignKey("executions.id", ondelete="CASCADE"))
    kind: Mapped[str]
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)


class Webhook(Receiver):
    """An address that a project's events are sent to; its secrets are encrypted."""

    __tablename__ = "webhooks"
    url: Mapped[str] = mapped_column(Text)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    description: Mapped[str | None] = mapped_column(Text)
    events: Mapped[list[str]] = mapped_column(default=list)
    enabled: Mapped[bool] = mapped_column(default=True)
    disabled_reason: Mapped[str | None] = mapped_column(Text)
    secret: Mapped[str] = mapped_column(Text)
    previous_secret: Mapped[str | None] = mapped_column(Text)
    previous_until: Mapped[datetime | None]


class Delivery(Message):
    """The delivery of one event to one webhook; its id is the `webhook-id` of every attempt.

    Those of one execution are sent one after another.
    """

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_webhook_id_id", "webhook_id", "id"),
        Index("ix_webhook_deliveries_state_available_at", "state", "available_at"),
    )
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    execution_id: Mapped[str | None] = mapped_column(String(36), index=True)
    type: Mapped[str]
