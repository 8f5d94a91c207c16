"""The tables of the metadata database. Times are UTC; ids are UUIDv7 strings unless they count."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    ForeignKey,
    Index,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from uuid6 import uuid7


def new_id() -> str:
    return str(uuid7())


def now() -> datetime:
    return datetime.now(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """A time that is aware on both sides; SQLite alone would hand it back naive."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("a time without a zone cannot be stored")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON, list[str]: JSON, list[dict[str, Any]]: JSON}  # noqa: RUF012


class Organization(Base):
    __tablename__ = "organizations"
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(unique=True)
    slug: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(default=now)


class Owned(Base):
    """What belongs to one organization: an id, its owner, and its times."""

    __abstract__ = True
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)


class ApiKey(Owned):
    __tablename__ = "api_keys"
    name: Mapped[str]
    key_hash: Mapped[str] = mapped_column(unique=True)
    scopes: Mapped[list[str]]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class Project(Owned):
    __tablename__ = "projects"
    __table_args__ = (UniqueConstraint("organization_id", "name"), UniqueConstraint("organization_id", "slug"))
    name: Mapped[str]
    slug: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    cron_schedule: Mapped[str | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    parameters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    active_executions: Mapped[int] = mapped_column(default=0)


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


class CloudCredential(Base):
    """Access to a provider; global when it has no organization. `secrets` holds each secret field, sealed."""

    __tablename__ = "cloud_credentials"
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"), index=True)
    name: Mapped[str]
    provider: Mapped[str]
    enabled: Mapped[bool] = mapped_column(default=True)
    secrets: Mapped[dict[str, Any]] = mapped_column(default=dict)
    region: Mapped[str | None] = mapped_column(Text)
    endpoint: Mapped[str | None] = mapped_column(Text)
    engine_id: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)


class Job(Owned):
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
    scheduled_time: Mapped[datetime | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    execution_count: Mapped[int] = mapped_column(default=0)
    latest_execution_id: Mapped[str | None] = mapped_column(String(36))


class Task(Base):
    """One run of a job. Counts in integers, as the specification's task metrics want."""

    __tablename__ = "tasks"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    bot_id: Mapped[str | None]
    task_type: Mapped[str] = mapped_column(default="SPARK")
    execution_mode: Mapped[str] = mapped_column(default="MANUAL")
    execution_id: Mapped[str | None] = mapped_column(String(36), index=True)
    execution_log: Mapped[str | None] = mapped_column(Text)
    scheduled_time: Mapped[datetime | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)


class Execution(Owned):
    """One execution of a job: what was frozen when it was accepted, and how far it has come."""

    __tablename__ = "executions"
    __table_args__ = (Index("ix_executions_job_newest", "job_id", "id"), Index("ix_executions_state", "state"))
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    job_name: Mapped[str]
    task_id: Mapped[int | None] = mapped_column(ForeignKey("tasks.id", ondelete="SET NULL"), index=True)
    state: Mapped[str] = mapped_column(default="PENDING")
    attempt: Mapped[int] = mapped_column(default=1)
    agent_id: Mapped[str] = mapped_column(String(36))
    agent_revision: Mapped[int]
    pipeline_yaml: Mapped[str] = mapped_column(Text)
    parameters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    inputs: Mapped[dict[str, Any]] = mapped_column(default=dict)
    output_name: Mapped[str | None] = mapped_column(Text)
    output_mode: Mapped[str] = mapped_column(default="overwrite")
    row_limit: Mapped[int | None] = mapped_column(BigInteger)
    credentials: Mapped[dict[str, Any]] = mapped_column(default=dict)
    sealed_environment: Mapped[str | None] = mapped_column(Text)
    run_id: Mapped[str | None]
    claimed_at: Mapped[datetime | None]
    heartbeat_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    error_message: Mapped[str | None] = mapped_column(Text)
    spark_ui_url: Mapped[str | None] = mapped_column(Text)
    metrics: Mapped[dict[str, Any]] = mapped_column(default=dict)
    progress: Mapped[dict[str, Any]] = mapped_column(default=dict)
    dataset_id: Mapped[str | None] = mapped_column(String(36))


class OutboxMessage(Base):
    """An effect that follows a commit: the launch of one attempt of an execution."""

    __tablename__ = "outbox"
    __table_args__ = (Index("ix_outbox_due", "processed_at", "available_at"),)
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    execution_id: Mapped[str] = mapped_column(ForeignKey("executions.id", ondelete="CASCADE"), index=True)
    attempt: Mapped[int]
    tries: Mapped[int] = mapped_column(default=0)
    dagster_run_id: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(default=now)
    available_at: Mapped[datetime] = mapped_column(default=now)
    processed_at: Mapped[datetime | None]


class Dataset(Owned):
    """A named table; `current_version_id` is the one pointer that publishing switches."""

    __tablename__ = "datasets"
    __table_args__ = (UniqueConstraint("organization_id", "schema_slug", "slug"),)
    project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    schema_slug: Mapped[str]
    slug: Mapped[str]
    logical_path: Mapped[str | None] = mapped_column(Text)
    format: Mapped[str] = mapped_column(default="parquet")
    current_version_id: Mapped[str | None] = mapped_column(String(36))


class DatasetVersion(Base):
    """What one execution published: the storage keys that hold its rows; an append keeps the earlier ones."""

    __tablename__ = "dataset_versions"
    __table_args__ = (UniqueConstraint("dataset_id", "execution_id"),)
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id", ondelete="CASCADE"), index=True)
    execution_id: Mapped[str | None] = mapped_column(String(36), index=True)
    logical_path: Mapped[str | None] = mapped_column(Text, index=True)
    paths: Mapped[list[str]]
    columns: Mapped[list[dict[str, Any]]]
    row_count: Mapped[int | None] = mapped_column(BigInteger)
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(default=now)


class IdempotencyRecord(Base):
    """What a call with an Idempotency-Key made, so that the same call again makes nothing new."""

    __tablename__ = "idempotency_records"
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    key_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    result_id: Mapped[str] = mapped_column(String(36))
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)


class RateCounter(Base):
    """Requests of one API key in one clock minute (minutes since 1970)."""

    __tablename__ = "rate_counters"
    key_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    minute: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    requests: Mapped[int]
