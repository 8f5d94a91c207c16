"""Base classes of the things that the dispatcher sends: messages, and their receivers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, Owned, new_id, now


class Receiver(Owned):
    """Who gets an organization's messages."""

    __abstract__ = True
    failing_since: Mapped[datetime | None]


class Message(Base):
    """A body that is sent until its receiver has accepted it.

    `state` is PENDING, DELIVERED or FAILED; `tries` has the results. A pending message is due at `available_at`, which
    is also the end of a dispatcher's lease.
    """

    __abstract__ = True
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    payload: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="PENDING")
    tries: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)
    available_at: Mapped[datetime] = mapped_column(default=now)
    delivered_at: Mapped[datetime | None]
