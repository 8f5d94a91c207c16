"""Cron jobs, and the calls of their ticks."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.messages import Message, Receiver


class CronJob(Receiver):
    """A cron schedule whose ticks call an address; the ids of project and job are the body and refer to no rows.

    `next_tick_at` is the first tick that has not been handled; null while the cron job is not `enabled`.
    """

    __tablename__ = "cron_jobs"
    __table_args__ = (UniqueConstraint("organization_id", "namespace", "name"),)
    url: Mapped[str] = mapped_column(Text)
    name: Mapped[str]
    namespace: Mapped[str]
    schedule: Mapped[str]
    timezone: Mapped[str]
    enabled: Mapped[bool] = mapped_column(default=True)
    project_id: Mapped[str | None] = mapped_column(Text)
    job_id: Mapped[str | None] = mapped_column(Text)
    secret_name: Mapped[str | None] = mapped_column(Text)
    secret_key: Mapped[str | None] = mapped_column(Text)
    cluster_provider: Mapped[str | None] = mapped_column(Text)
    cluster_config_id: Mapped[str | None] = mapped_column(Text)
    image: Mapped[str | None] = mapped_column(Text)
    next_tick_at: Mapped[datetime | None] = mapped_column(index=True)


class CronJobCall(Message):
    """The call of one tick."""

    __tablename__ = "cron_job_calls"
    __table_args__ = (
        UniqueConstraint("cron_job_id", "tick_at"),
        Index("ix_cron_job_calls_state_available_at", "state", "available_at"),
    )
    cron_job_id: Mapped[str] = mapped_column(ForeignKey("cron_jobs.id", ondelete="CASCADE"))
    tick_at: Mapped[datetime]
