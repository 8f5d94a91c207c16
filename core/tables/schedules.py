"""Schedules of projects, their ticks, and the results of the ticks by job."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, Owned, new_id, now

WAITING = text("state = 'WAITING'")


class Schedule(Owned):
    """When the jobs of a project are executed. The cron expression of the one without a name is the project's.

    `next_tick_at` is the first tick that has not been handled; it is null while the schedule cannot fire. It follows
    from `planned_for`: the cron expression, timezone and switch for which it was computed.
    `agreed_enabled` is the state of the switch in which this record and Dagster agreed last; null before the first
    time.
    """

    __tablename__ = "schedules"
    __table_args__ = (UniqueConstraint("project_id", "name"),)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(default="")
    cron_schedule: Mapped[str | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    timezone: Mapped[str] = mapped_column(default="UTC")
    job_id: Mapped[str | None] = mapped_column(String(36))
    parameters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    execution_request_json: Mapped[str | None] = mapped_column(Text)
    overlap: Mapped[str] = mapped_column(default="skip")
    missed: Mapped[str] = mapped_column(default="latest")
    next_tick_at: Mapped[datetime | None] = mapped_column(index=True)
    planned_for: Mapped[str | None] = mapped_column(Text)
    agreed_enabled: Mapped[bool | None]


class ScheduleTick(Base):
    """One time at which a schedule was due: FIRED, or SKIPPED or MISSED for a reason."""

    __tablename__ = "schedule_ticks"
    __table_args__ = (UniqueConstraint("schedule_id", "tick_at"),)
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    schedule_id: Mapped[str] = mapped_column(ForeignKey("schedules.id", ondelete="CASCADE"))
    tick_at: Mapped[datetime]
    state: Mapped[str]
    reason: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(default=now)


class TickJob(Base):
    """A job of a tick that fired: WAITING, then SUBMITTED with its execution, or SKIPPED or REFUSED for a reason.

    `after` are the ids of the jobs of the same tick whose output it reads.
    """

    __tablename__ = "schedule_tick_jobs"
    __table_args__ = (
        UniqueConstraint("tick_id", "job_id"),
        Index("ix_schedule_tick_jobs_waiting", "id", sqlite_where=WAITING, postgresql_where=WAITING),
        Index("ix_schedule_tick_jobs_job_id", "job_id"),
    )
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    tick_id: Mapped[str] = mapped_column(ForeignKey("schedule_ticks.id", ondelete="CASCADE"))
    job_id: Mapped[str] = mapped_column(String(36))
    job_name: Mapped[str]
    after: Mapped[list[str]] = mapped_column(default=list)
    overlap: Mapped[str]
    state: Mapped[str] = mapped_column(default="WAITING")
    reason: Mapped[str | None] = mapped_column(Text)
    code: Mapped[str | None]
    execution_id: Mapped[str | None] = mapped_column(String(36), index=True)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)
