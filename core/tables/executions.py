"""Executions, and the outbox of effects that follow their commits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String, Text, TypeDecorator, text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, JsonOf, Owned, new_id, now
from core.tables.shared import Sharing
from core.tables.work import FrozenFields
from pipelines.contract.request import PlannedStep
from pipelines.language.origins import TracedColumn

QUEUED, RUNNING = text("state = 'QUEUED'"), text("state = 'RUNNING'")
OF_PARTITION, OF_BACKFILL = text("partition IS NOT NULL"), text("backfill_id IS NOT NULL")
HOLDING = text("holds_slot")
DETAILED = text("state = 'COMPLETED' AND shared_id IS NULL")


ColumnTypes = tuple[tuple[str, str], ...]
COUNTS = (
    *("duration_seconds", "records_processed", "records_output", "output_file_size_bytes", "total_cpu_time_seconds"),
    *("driver_memory_used_bytes", "executor_memory_used_bytes", "partitions_count", "executor_count"),
    *("error_count", "warning_count"),
)  # a list in old executions: others follow the last one


class ReportedMetrics(TypeDecorator[dict[str, Any]]):
    """The figures that an execution has reported, by name. A cleanup leaves `counts`, a list in the order of COUNTS."""

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: dict[str, Any] | None, dialect: Dialect) -> dict[str, Any] | None:
        if not value or "counts" not in value:
            return value
        counts = zip(COUNTS, value.pop("counts"), strict=False)
        return {name: count for name, count in counts if count is not None} | value


@dataclass(frozen=True, slots=True)
class FrozenInput:
    """The version of a dataset that an execution reads, by its id and its `number` in the dataset.

    Without ids and locations it is the job's own table before anything was published, which has no rows.

    Tables have `columns`, and so have files in folders for values, since the types of these are not in the files; an
    own table without rows has those of the output. Of a table, only the rows of a `partition` may be read. The `rows`
    that the request of an execution gave are a file without ids.
    """

    dataset: str
    version: str
    number: int
    format: str
    locations: tuple[str, ...]
    snapshot: str | None = None
    columns: ColumnTypes = ()
    partition_by: tuple[str, ...] = ()
    partition: tuple[tuple[str, str], ...] = ()
    rows: int | None = None

    @property
    def is_published(self) -> bool:
        return bool(self.version)


@dataclass(frozen=True, slots=True)
class FrozenOutput:
    """A dataset that an execution writes; `path` is None for the job's own. A table has the key of its folder.

    The columns `keys` tell its rows apart, where its mode needs that. `columns` describes them as its pipeline does.
    """

    path: str | None
    format: str
    mode: str
    location: str | None = None
    keys: tuple[str, ...] = ()
    columns: tuple[TracedColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class FrozenPlugin:
    """A build of an uploaded plugin: its wheel in the storage, by its digest."""

    plugin_id: str
    digest: str
    file_name: str


@dataclass(frozen=True, slots=True)
class FrozenBuild:
    """A build of the engine other than the service's: its wheel in the storage, and the protocol of its drivers."""

    version: str
    digest: str
    file_name: str
    protocol: int | None


@dataclass(frozen=True, slots=True)
class FrozenPages:
    """The pages that the attempts of an earlier execution have used, as they were `until` its end."""

    execution_id: str
    attempts: int
    until: datetime


@dataclass(frozen=True, slots=True)
class ExecutionDriver:
    """The driver of an attempt, its source (such as `warm`), and how long the attempt has waited for it."""

    name: str
    source: str
    waited_seconds: float


class Execution(FrozenFields, Sharing, Owned):
    """One execution of a job: the values frozen at its acceptance, its state and its progress.

    `retries` counts the attempts that followed a failure by themselves, since it was accepted or retried by hand. While
    it waits for its next attempt, `retry_at` is the earliest time of that. `inputs` and `outputs` are by their path in
    the pipeline, `libraries` the Java libraries that its driver needs, `instance_id` the instance that has claimed the
    attempt. `partition` is the key of the part of the dataset that it makes, and `partition_scheme` what equal keys of
    the job have in common. `pages_of` is the earlier execution whose stored pages it runs over, without a request. It
    has a place in its `pools` as long as it holds a slot. Cleanup removed its pipeline and progress at
    `details_removed_at`, and what the job's executions have in common is in `shared` then.
    """

    __tablename__ = "executions"
    __table_args__ = (
        Index("ix_executions_job_newest", "job_id", "id"),
        Index("ix_executions_queued", "project_id", "id", sqlite_where=QUEUED, postgresql_where=QUEUED),
        Index(
            "ix_executions_organization_queued", "organization_id", "id", sqlite_where=QUEUED, postgresql_where=QUEUED
        ),
        Index("ix_executions_state", "state"),
        Index("ix_executions_holding", "organization_id", sqlite_where=HOLDING, postgresql_where=HOLDING),
        Index("ix_executions_organization_state", "organization_id", "state", "id"),
        Index(
            "ix_executions_job_partition",
            "job_id",
            "partition",
            sqlite_where=OF_PARTITION,
            postgresql_where=OF_PARTITION,
        ),
        Index(
            "uq_executions_backfill_partition",
            *("backfill_id", "partition"),
            unique=True,
            sqlite_where=OF_BACKFILL,
            postgresql_where=OF_BACKFILL,
        ),
        Index("ix_executions_detailed", "completed_at", sqlite_where=DETAILED, postgresql_where=DETAILED),
    )
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))  # other indexes begin with it
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    job_name: Mapped[str]
    task_id: Mapped[int | None] = mapped_column(ForeignKey("tasks.id", ondelete="SET NULL"), index=True)
    state: Mapped[str] = mapped_column(default="PENDING")
    holds_slot: Mapped[bool] = mapped_column(default=False)
    attempt: Mapped[int] = mapped_column(default=1)
    retries: Mapped[int] = mapped_column(default=0)
    retry_at: Mapped[datetime | None]
    first_attempt: Mapped[int] = mapped_column(default=1)
    began_at: Mapped[datetime | None]
    agent_id: Mapped[str] = mapped_column(String(36))
    agent_revision: Mapped[int]
    pipeline_yaml: Mapped[str] = mapped_column(Text)
    parameters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    arguments: Mapped[list[str]] = mapped_column(default=list)
    row_transforms: Mapped[dict[str, Any]] = mapped_column(default=dict)
    package_lock: Mapped[str | None] = mapped_column(Text)
    plugins: Mapped[list[FrozenPlugin]] = mapped_column(JsonOf(list[FrozenPlugin]), default=list)
    engine_build: Mapped[FrozenBuild | None] = mapped_column(JsonOf(FrozenBuild | None))
    inputs: Mapped[dict[str, FrozenInput]] = mapped_column(JsonOf(dict[str, FrozenInput]), default=dict)
    outputs: Mapped[dict[str, FrozenOutput]] = mapped_column(JsonOf(dict[str, FrozenOutput]), default=dict)
    libraries: Mapped[list[str]] = mapped_column(default=list)
    engine: Mapped[str] = mapped_column(default="auto")
    driver_reuse: Mapped[bool] = mapped_column(default=True)
    spark_reason: Mapped[str | None] = mapped_column(Text)
    steps: Mapped[list[PlannedStep]] = mapped_column(JsonOf(list[PlannedStep]), default=list)
    output_name: Mapped[str | None] = mapped_column(Text)
    output_mode: Mapped[str] = mapped_column(default="overwrite")
    row_limit: Mapped[int | None] = mapped_column(BigInteger)
    publishes: Mapped[bool] = mapped_column(default=True)
    pages_of: Mapped[FrozenPages | None] = mapped_column(JsonOf(FrozenPages | None))
    credentials: Mapped[dict[str, Any]] = mapped_column(default=dict)
    sealed_environment: Mapped[str | None] = mapped_column(Text)
    run_id: Mapped[str | None]
    instance_id: Mapped[str | None] = mapped_column(String(36))
    claimed_at: Mapped[datetime | None]
    heartbeat_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    error_message: Mapped[str | None] = mapped_column(Text)
    error_code: Mapped[str | None]
    driver: Mapped[ExecutionDriver | None] = mapped_column(JsonOf(ExecutionDriver | None))
    spark_ui_url: Mapped[str | None] = mapped_column(Text)
    metrics: Mapped[dict[str, Any]] = mapped_column(ReportedMetrics, default=dict)
    progress: Mapped[dict[str, Any]] = mapped_column(default=dict)
    dataset_id: Mapped[str | None] = mapped_column(String(36))
    trigger: Mapped[str] = mapped_column(default="rest")
    tick_at: Mapped[datetime | None]
    schedule_name: Mapped[str | None]
    partition: Mapped[str | None] = mapped_column(Text)
    partition_scheme: Mapped[str | None] = mapped_column(Text)
    backfill_id: Mapped[str | None] = mapped_column(String(36))
    details_removed_at: Mapped[datetime | None]


class Backfill(Owned):
    """A request to execute a job for many partitions: RUNNING, then COMPLETED, FAILED or CANCELLED.

    `keys` are its partitions, in order; those whose executions could not be accepted are in `refused`, with a sentence.
    """

    __tablename__ = "backfills"
    __table_args__ = (
        Index("ix_backfills_job_newest", "job_id", "id"),
        Index("ix_backfills_running", "id", sqlite_where=RUNNING, postgresql_where=RUNNING),
    )
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    state: Mapped[str] = mapped_column(default="RUNNING")
    keys: Mapped[list[str]]
    refused: Mapped[dict[str, Any]] = mapped_column(default=dict)
    completed_at: Mapped[datetime | None]


class ExecutionAttempt(Base):
    """An attempt of an execution that a later one has followed; the current attempt is in the execution itself."""

    __tablename__ = "execution_attempts"
    execution_id: Mapped[str] = mapped_column(ForeignKey("executions.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    state: Mapped[str]
    run_id: Mapped[str | None]
    started_at: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]
    error_message: Mapped[str | None] = mapped_column(Text)
    error_code: Mapped[str | None]
    resumed_after: Mapped[str | None]


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
    instance_id: Mapped[str | None] = mapped_column(String(36))
