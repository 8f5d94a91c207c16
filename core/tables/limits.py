"""Idempotency keys and rate limits."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, now


class IdempotencyRecord(Base):
    """The result of a call with an Idempotency-Key: the id of an execution, or an answer, encrypted.

    A call that has neither is not finished.
    """

    __tablename__ = "idempotency_records"
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    key_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    result_id: Mapped[str | None] = mapped_column(String(36))
    answer: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)


class RateCounter(Base):
    """Requests of one API key in one clock minute (minutes since 1970)."""

    __tablename__ = "rate_counters"
    key_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    minute: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    requests: Mapped[int]
