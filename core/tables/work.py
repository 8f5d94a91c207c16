"""Projects, categories, agents, jobs and tasks."""

from __future__ import annotations

from datetime import datetime
from inspect import get_annotations
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from core.tables.base import Base, Owned, now
from core.tables.extensions import PythonExtension

SCHEDULED = text("scheduled_time IS NOT NULL")


class Project(Owned):
    __tablename__ = "projects"
    __table_args__ = (UniqueConstraint("organization_id", "name"), UniqueConstraint("organization_id", "slug"))
    name: Mapped[str]
    slug: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    cron_schedule: Mapped[str | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    driver_reuse: Mapped[bool] = mapped_column(default=True)
    parameters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    active_executions: Mapped[int] = mapped_column(default=0)


class ExecutionPool(Owned):
    """A limit of the executions that may run at once, in all projects, of the jobs that name it.

    `turns` are ids of projects; the one that was admitted last is the last.
    """

    __tablename__ = "pools"
    __table_args__ = (UniqueConstraint("organization_id", "name"),)
    name: Mapped[str]
    limit: Mapped[int]
    turns: Mapped[list[str]] = mapped_column(default=list)


class Category(Owned):
    __tablename__ = "categories"
    __table_args__ = (UniqueConstraint("organization_id", "name"),)
    name: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    icon: Mapped[str | None]
    visibility: Mapped[str] = mapped_column(default="PUBLIC")
    enabled: Mapped[bool] = mapped_column(default=True)
    created_by_key_id: Mapped[str | None] = mapped_column(String(36))


class Agent(Owned):
    __tablename__ = "agents"
    name: Mapped[str]
    category_id: Mapped[str | None] = mapped_column(ForeignKey("categories.id", ondelete="SET NULL"), index=True)
    description: Mapped[str | None] = mapped_column(Text)
    pipeline_yaml: Mapped[str | None] = mapped_column(Text)
    code: Mapped[str | None] = mapped_column(Text)
    code_type_id: Mapped[str | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    revision: Mapped[int] = mapped_column(default=1)
    outline: Mapped[dict[str, Any] | None] = mapped_column(
        JSON, deferred=True
    )  # see core.definitions.agents.plan_outline
    package_lock: Mapped[str | None] = mapped_column(Text, deferred=True)
    extensions: Mapped[list[PythonExtension]] = relationship(viewonly=True)


class FrozenFields:
    """The fields of a job that each of its executions takes over at its acceptance, as they are."""

    max_retries: Mapped[int] = mapped_column(default=0)
    retry_backoff_seconds: Mapped[int] = mapped_column(default=10)
    timeout_seconds: Mapped[int] = mapped_column(default=0)
    retry_on: Mapped[str] = mapped_column(default="infrastructure")
    pools: Mapped[list[str]] = mapped_column(default=list)  # their names

    def copy_frozen_fields(self) -> dict[str, Any]:
        """Return their values by name."""
        return {name: getattr(self, name) for name in get_annotations(FrozenFields)}


class Job(FrozenFields, Owned):
    __tablename__ = "jobs"
    __table_args__ = (UniqueConstraint("project_id", "slug"),)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    agent_id: Mapped[str | None] = mapped_column(ForeignKey("agents.id", ondelete="SET NULL"), index=True)
    name: Mapped[str]
    slug: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    input_dataset_id: Mapped[str | None] = mapped_column(String(36))
    output_dataset_id: Mapped[str | None] = mapped_column(String(36))
    cloud_credential_id: Mapped[str | None] = mapped_column(String(36))
    cloud_credential_ids: Mapped[list[str]] = mapped_column(default=list)
    parameters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    tags: Mapped[dict[str, Any]] = mapped_column(default=dict)
    owners: Mapped[list[str]] = mapped_column(default=list)
    depends_on: Mapped[list[str]] = mapped_column(default=list)  # names: a declaration may name jobs that follow it
    freshness: Mapped[dict[str, Any]] = mapped_column(default=dict)
    stale_at: Mapped[datetime | None] = mapped_column(index=True)  # until then its table is fresh
    trigger: Mapped[dict[str, Any]] = mapped_column(default=dict)
    scheduled_time: Mapped[datetime | None] = mapped_column(index=True)
    handled_time: Mapped[datetime | None]
    engine: Mapped[str] = mapped_column(default="auto")
    driver_reuse: Mapped[bool] = mapped_column(default=True)
    publish: Mapped[bool] = mapped_column(default=True)
    enabled: Mapped[bool] = mapped_column(default=True)
    partitions: Mapped[list[dict[str, Any]]] = mapped_column(default=list)  # see core.definitions.jobs.partitions
    execution_count: Mapped[int] = mapped_column(default=0)
    latest_execution_id: Mapped[str | None] = mapped_column(String(36))


class Task(Base):
    """One run of a job. Its id is an integer, as the API's `taskId` is one."""

    __tablename__ = "tasks"
    __table_args__ = (
        Index("ix_tasks_scheduled_time", "scheduled_time", sqlite_where=SCHEDULED, postgresql_where=SCHEDULED),
        {"sqlite_autoincrement": True},
    )
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    bot_id: Mapped[str | None]
    task_type: Mapped[str] = mapped_column(default="SPARK")
    execution_mode: Mapped[str] = mapped_column(default="MANUAL")
    execution_id: Mapped[str | None] = mapped_column(String(36))
    execution_log: Mapped[str | None] = mapped_column(Text)
    sealed_api_key: Mapped[str | None] = mapped_column(Text)
    scheduled_time: Mapped[datetime | None]
    handled_time: Mapped[datetime | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)
