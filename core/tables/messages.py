"""Base classes of messages that the dispatcher sends: messages, and the receivers that they are posted to."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, Owned, new_id, now


class Receiver(Owned):
    """An address that an organization's messages are posted to."""

    __abstract__ = True
    url: Mapped[str] = mapped_column(Text)
    failing_since: Mapped[datetime | None]


class Message(Base):
    """A body that is posted until a 2xx answers it. `state` is PENDING, DELIVERED or FAILED; `tries` has the results.

    A pending message is due at `available_at`, which is also the end of a dispatcher's lease.
    """

    __abstract__ = True
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    payload: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="PENDING")
    tries: Mapped[list[dict[str, Any]]] = mapped_column(default=list)
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)
    available_at: Mapped[datetime] = mapped_column(default=now)
    delivered_at: Mapped[datetime | None]
