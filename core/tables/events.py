"""Events of executions, webhooks, and the deliveries of events to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, Owned, new_id, now

COUNT = BigInteger().with_variant(Integer, "sqlite")  # SQLite increments INTEGER keys only


class ExecutionEvent(Base):
    """A change of an execution's state, or its latest progress. Ids ascend in the order of a project's commits."""

    __tablename__ = "execution_events"
    __table_args__ = (
        Index("ix_execution_events_project_id_id", "project_id", "id"),
        Index("ix_execution_events_execution_id_id", "execution_id", "id"),
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(COUNT, primary_key=True, autoincrement=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"))
    execution_id: Mapped[str] = mapped_column(ForeignKey("executions.id", ondelete="CASCADE"))
    kind: Mapped[str]
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)


class Webhook(Owned):
    """An address that a project's events are sent to; its secrets are encrypted."""

    __tablename__ = "webhooks"
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    url: Mapped[str] = mapped_column(Text)
    description: Mapped[str | None] = mapped_column(Text)
    events: Mapped[list[str]] = mapped_column(default=list)
    enabled: Mapped[bool] = mapped_column(default=True)
    disabled_reason: Mapped[str | None] = mapped_column(Text)
    failing_since: Mapped[datetime | None]
    secret: Mapped[str] = mapped_column(Text)
    previous_secret: Mapped[str | None] = mapped_column(Text)
    previous_until: Mapped[datetime | None]


class Delivery(Base):
    """The delivery of one event to one webhook; its id is the `webhook-id` of every attempt."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_webhook_id_id", "webhook_id", "id"),
        Index("ix_webhook_deliveries_state_available_at", "state", "available_at"),
    )
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    type: Mapped[str]
    payload: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="PENDING")
    tries: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)
    available_at: Mapped[datetime] = mapped_column(default=now)
    delivered_at: Mapped[datetime | None]
