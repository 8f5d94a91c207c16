"""Idempotency keys, rate limits, and the limits of organizations."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import BigInteger, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, new_id, now


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


class OrganizationLimits(Base):
    """The limits of an organization where they are not those of the settings, and its executions of one day (UTC).

    Transactions that count against a limit lock this row, after the project's and before those of jobs and tasks.
    """

    __tablename__ = "organization_limits"
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    executions_at_once: Mapped[int | None]
    executions_a_day: Mapped[int | None]
    storage_bytes: Mapped[int | None] = mapped_column(BigInteger)
    queries_at_once: Mapped[int | None]
    day: Mapped[date | None]
    day_executions: Mapped[int] = mapped_column(default=0)


class RunningQuery(Base):
    """A query that counts against its organization's limit, at the latest until it has to have ended."""

    __tablename__ = "running_queries"
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    expires_at: Mapped[datetime]
