"""The first tables. Constraints and indexes without a name get theirs from `core.tables.base.NAMES`.

Revision ID: 0001
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID, STRING, TEXT, JSON = sa.String(36), sa.String(), sa.Text(), sa.JSON()
BOOLEAN, INTEGER, BIGINT, TIME = sa.Boolean(), sa.Integer(), sa.BigInteger(), sa.DateTime(timezone=True)
HASH, ASCENDING = sa.String(64), sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite counts INTEGER only
QUEUED, WAITING = sa.text("state = 'QUEUED'"), sa.text("state = 'WAITING'")
USAGE = ("executions", "seconds", "cpu_ms", "memory_mb_seconds", "bytes_read", "bytes_written", "network_bytes")
COSTS = ("driver_cost", "executors_cost", "read_cost", "write_cost", "network_cost")


def upgrade() -> None:
    create_owners()
    create_definitions()
    create_executions()
    create_schedules()
    create_data()
    create_exchange()
    create_training()


def require(type_: Any, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, type_, nullable=False, **options) for name in names]


def allow_null(type_: Any, *names: str, **options: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, type_, **options) for name in names]


def refer(
    name: str, table: str, type_: Any = ID, *, ondelete: str | None = None, nullable: bool = False, **options: Any
) -> sa.Column[Any]:
    return sa.Column(name, type_, sa.ForeignKey(f"{table}.id", ondelete=ondelete), nullable=nullable, **options)


def list_owner_columns() -> list[sa.Column[Any]]:
    """Return the columns of a row of one organization."""
    return [
        *require(ID, "id", primary_key=True),
        refer("organization_id", "organizations", index=True),
        *require(TIME, "created_at", "updated_at"),
    ]


def list_message_columns() -> list[sa.Column[Any]]:
    """Return the columns of a message to an address, with the history of its delivery."""
    return [
        *require(ID, "id", primary_key=True),
        *require(JSON, "payload"),
        *require(STRING, "state"),
        *require(JSON, "tries"),
        *require(TIME, "created_at", index=True),
        *require(TIME, "available_at"),
        *allow_null(TIME, "delivered_at"),
    ]


def create_owners() -> None:
    op.create_table(
        "organizations",
        *require(ID, "id", primary_key=True),
        *require(STRING, "name", "slug", unique=True),
        *require(TIME, "created_at"),
    )
    op.create_table(
        "api_keys",
        *list_owner_columns(),
        *require(STRING, "name"),
        *require(STRING, "key_hash", unique=True),
        *require(JSON, "scopes"),
        *allow_null(TIME, "expires_at", "revoked_at", "last_used_at"),
    )
    op.create_table(
        "idempotency_records",
        refer("organization_id", "organizations", primary_key=True),
        *require(HASH, "key_hash", primary_key=True),
        *require(HASH, "fingerprint"),
        *allow_null(ID, "result_id"),
        *allow_null(TEXT, "answer"),
        *require(TIME, "created_at", index=True),
    )
    op.create_table(
        "rate_counters",
        *require(ID, "key_id", primary_key=True),
        *require(INTEGER, "minute", primary_key=True, autoincrement=False),
        *require(INTEGER, "requests"),
    )
    op.create_table(
        "cloud_credentials",
        *require(ID, "id", primary_key=True),
        refer("organization_id", "organizations", nullable=True, index=True),
        *require(STRING, "name"),
        *allow_null(TEXT, "description"),
        *require(STRING, "provider"),
        *require(BOOLEAN, "enabled"),
        *require(JSON, "secrets"),
        *allow_null(TEXT, "region", "endpoint", "engine_id"),
        *require(TIME, "created_at", "updated_at"),
    )


def create_definitions() -> None:
    op.create_table(
        "categories",
        *list_owner_columns(),
        *require(STRING, "name"),
        *allow_null(TEXT, "description"),
        *allow_null(STRING, "icon"),
        *require(STRING, "visibility"),
        *require(BOOLEAN, "enabled"),
        *allow_null(ID, "created_by_key_id"),
        sa.UniqueConstraint("organization_id", "name"),
    )
    op.create_table(
        "projects",
        *list_owner_columns(),
        *require(STRING, "name", "slug"),
        *allow_null(TEXT, "description"),
        *allow_null(STRING, "cron_schedule"),
        *require(BOOLEAN, "enabled"),
        *require(BOOLEAN, "driver_reuse", server_default=sa.true()),
        *require(JSON, "parameters"),
        *require(INTEGER, "active_executions"),
        sa.UniqueConstraint("organization_id", "name"),
        sa.UniqueConstraint("organization_id", "slug"),
    )
    op.create_table(
        "agents",
        *list_owner_columns(),
        *require(STRING, "name"),
        refer("category_id", "categories", ondelete="SET NULL", nullable=True, index=True),
        *allow_null(TEXT, "description", "pipeline_yaml", "code"),
        *allow_null(STRING, "code_type_id"),
        *require(BOOLEAN, "enabled"),
        *require(INTEGER, "revision"),
        *allow_null(JSON, "outline"),
    )
    op.create_table(
        "python_extensions",
        *list_owner_columns(),
        refer("agent_id", "agents", ondelete="CASCADE", index=True),
        *require(STRING, "name", "folded_name", "type"),
        *require(TEXT, "source"),
        sa.UniqueConstraint("agent_id", "folded_name"),
    )
    op.create_table(
        "jobs",
        *list_owner_columns(),
        refer("project_id", "projects", ondelete="CASCADE", index=True),
        refer("agent_id", "agents", ondelete="SET NULL", nullable=True, index=True),
        *require(STRING, "name", "slug"),
        *allow_null(TEXT, "description"),
        *allow_null(ID, "input_dataset_id", "output_dataset_id", "cloud_credential_id"),
        *require(JSON, "cloud_credential_ids", "parameters"),
        *allow_null(TIME, "scheduled_time", index=True),
        *allow_null(TIME, "handled_time"),
        *require(INTEGER, "max_retries", server_default="0"),
        *require(INTEGER, "retry_backoff_seconds", server_default="10"),
        *require(INTEGER, "timeout_seconds", server_default="0"),
        *require(STRING, "retry_on", server_default="infrastructure"),
        *require(STRING, "engine", server_default="auto"),
        *require(BOOLEAN, "driver_reuse", server_default=sa.true()),
        *require(BOOLEAN, "enabled"),
        *require(INTEGER, "execution_count"),
        *allow_null(ID, "latest_execution_id"),
        sa.UniqueConstraint("project_id", "slug"),
    )
    op.create_table(
        "tasks",
        *require(INTEGER, "id", primary_key=True),
        refer("organization_id", "organizations", index=True),
        refer("job_id", "jobs", ondelete="CASCADE", index=True),
        *require(STRING, "name"),
        *allow_null(TEXT, "description"),
        *allow_null(STRING, "bot_id"),
        *require(STRING, "task_type", "execution_mode"),
        *allow_null(ID, "execution_id", index=True),
        *allow_null(TEXT, "execution_log", "sealed_api_key"),
        *allow_null(TIME, "scheduled_time", index=True),
        *allow_null(TIME, "handled_time"),
        *require(BOOLEAN, "enabled"),
        *require(TIME, "created_at", "updated_at"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "definition_changes",
        *require(INTEGER, "id", primary_key=True),
        *require(STRING, "kind", "record_id"),
        *require(TIME, "created_at", index=True),
        sqlite_autoincrement=True,
    )


def create_executions() -> None:
    op.create_table(
        "executions",
        *list_owner_columns(),
        refer("project_id", "projects", ondelete="CASCADE", index=True),
        refer("job_id", "jobs", ondelete="CASCADE"),
        *require(STRING, "job_name"),
        refer("task_id", "tasks", ondelete="SET NULL", nullable=True, index=True, type_=INTEGER),
        *require(STRING, "state"),
        *require(BOOLEAN, "holds_slot", server_default=sa.false()),
        *require(INTEGER, "attempt"),
        *require(INTEGER, "max_retries", server_default="0"),
        *require(INTEGER, "retry_backoff_seconds", server_default="10"),
        *require(INTEGER, "timeout_seconds", server_default="0"),
        *require(STRING, "retry_on", server_default="infrastructure"),
        *require(INTEGER, "retries", server_default="0"),
        *allow_null(TIME, "retry_at"),
        *require(ID, "agent_id"),
        *require(INTEGER, "agent_revision"),
        *require(TEXT, "pipeline_yaml"),
        *require(JSON, "parameters"),
        *require(JSON, "arguments", server_default="[]"),
        *require(JSON, "row_transforms", server_default="{}"),
        *require(JSON, "inputs"),
        *require(JSON, "outputs", server_default="{}"),
        *require(STRING, "engine", server_default="auto"),
        *require(BOOLEAN, "driver_reuse", server_default=sa.true()),
        *allow_null(TEXT, "spark_reason"),
        *require(JSON, "libraries", "steps", server_default="[]"),
        *allow_null(TEXT, "output_name"),
        *require(STRING, "output_mode"),
        *allow_null(BIGINT, "row_limit"),
        *require(JSON, "credentials", server_default="{}"),
        *allow_null(TEXT, "sealed_environment"),
        *allow_null(STRING, "run_id"),
        *allow_null(TIME, "claimed_at", "heartbeat_at", "started_at", "completed_at"),
        *allow_null(TEXT, "error_message"),
        *allow_null(STRING, "error_code"),
        *allow_null(JSON, "driver"),
        *allow_null(TEXT, "spark_ui_url"),
        *require(JSON, "metrics", "progress"),
        *allow_null(ID, "dataset_id"),
        *require(STRING, "trigger", server_default="rest"),
        *allow_null(TIME, "tick_at"),
        sa.Index("ix_executions_job_newest", "job_id", "id"),
        sa.Index("ix_executions_queued", "project_id", "id", sqlite_where=QUEUED, postgresql_where=QUEUED),
        sa.Index("ix_executions_state", "state"),
    )
    op.create_table(
        "execution_attempts",
        refer("execution_id", "executions", ondelete="CASCADE", primary_key=True),
        *require(INTEGER, "attempt", primary_key=True, autoincrement=False),
        *require(STRING, "state"),
        *allow_null(STRING, "run_id"),
        *allow_null(TIME, "started_at", "completed_at"),
        *allow_null(TEXT, "error_message"),
        *allow_null(STRING, "error_code", "resumed_after"),
    )
    op.create_table(
        "outbox",
        *require(ID, "id", primary_key=True),
        refer("execution_id", "executions", ondelete="CASCADE", index=True),
        *require(INTEGER, "attempt", "tries"),
        *allow_null(STRING, "dagster_run_id"),
        *require(TIME, "created_at", "available_at"),
        *allow_null(TIME, "processed_at"),
        sa.Index("ix_outbox_due", "processed_at", "available_at"),
    )
    op.create_table(
        "execution_events",
        *require(ASCENDING, "id", primary_key=True),
        refer("project_id", "projects", ondelete="CASCADE"),
        refer("execution_id", "executions", ondelete="CASCADE"),
        *require(STRING, "kind"),
        *require(JSON, "data"),
        *require(TIME, "created_at", index=True),
        sa.Index("ix_execution_events_execution_id_id", "execution_id", "id"),
        sa.Index("ix_execution_events_project_id_id", "project_id", "id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "execution_bills",
        *require(ID, "execution_id", primary_key=True),
        *require(INTEGER, "attempt", primary_key=True, autoincrement=False),
        refer("organization_id", "organizations"),
        *require(ID, "project_id", "job_id", "agent_id"),
        *require(TIME, "ended_at"),
        *require(BIGINT, "executor_count", "executor_seconds"),
        *require(STRING, "provider", "region", "currency", "driver_instance", "executor_instance"),
        *require(BIGINT, *USAGE, "records", "tasks", *COSTS),
        sa.Index("ix_execution_bills_ended", "organization_id", "ended_at"),
    )
    op.create_table(
        "totals",
        refer("organization_id", "organizations", primary_key=True),
        *require(sa.String(5), "grain", primary_key=True),
        *require(sa.Date(), "start", primary_key=True),
        *require(ID, "project_id", "job_id", "agent_id", primary_key=True),
        *require(BIGINT, *USAGE, "records", "tasks", *COSTS),
    )
    op.create_table(
        "overhead_totals",
        refer("organization_id", "organizations", primary_key=True),
        *require(TIME, "start", primary_key=True),
        *require(BIGINT, "start_ms", "idle_ms", "cost"),
    )


def create_schedules() -> None:
    op.create_table(
        "schedules",
        *list_owner_columns(),
        refer("project_id", "projects", ondelete="CASCADE", unique=True),
        *require(BOOLEAN, "enabled"),
        *require(STRING, "timezone"),
        *allow_null(ID, "job_id"),
        *require(JSON, "parameters"),
        *allow_null(TEXT, "execution_request_json"),
        *require(STRING, "overlap", "missed"),
        *allow_null(TIME, "next_tick_at", index=True),
        *allow_null(TEXT, "planned_for"),
        *allow_null(BOOLEAN, "agreed_enabled"),
    )
    op.create_table(
        "schedule_ticks",
        *require(ID, "id", primary_key=True),
        refer("schedule_id", "schedules", ondelete="CASCADE"),
        *require(TIME, "tick_at"),
        *require(STRING, "state"),
        *allow_null(TEXT, "reason"),
        *require(TIME, "created_at"),
        sa.UniqueConstraint("schedule_id", "tick_at"),
    )
    op.create_table(
        "schedule_tick_jobs",
        *require(ID, "id", primary_key=True),
        refer("tick_id", "schedule_ticks", ondelete="CASCADE"),
        *require(ID, "job_id"),
        *require(STRING, "job_name"),
        *require(JSON, "after"),
        *require(STRING, "overlap", "state"),
        *allow_null(TEXT, "reason"),
        *allow_null(STRING, "code"),
        *allow_null(ID, "execution_id", index=True),
        *require(TIME, "updated_at"),
        sa.UniqueConstraint("tick_id", "job_id"),
        sa.Index("ix_schedule_tick_jobs_job_id", "job_id"),
        sa.Index("ix_schedule_tick_jobs_waiting", "id", sqlite_where=WAITING, postgresql_where=WAITING),
    )


def create_data() -> None:
    op.create_table(
        "datasets",
        *list_owner_columns(),
        refer("project_id", "projects", ondelete="CASCADE", nullable=True, index=True),
        refer("job_id", "jobs", ondelete="CASCADE", nullable=True, index=True),
        *require(STRING, "name", "schema_slug", "slug"),
        *allow_null(TEXT, "logical_path"),
        *require(STRING, "format"),
        *allow_null(ID, "current_version_id"),
        *require(STRING, "dataset_type", server_default="OUTPUT"),
        *allow_null(TEXT, "description"),
        *allow_null(INTEGER, "retained_versions", "retained_days", "maintained_days"),
        *allow_null(STRING, "maintained_every"),
        *allow_null(TIME, "maintained_at"),
        sa.UniqueConstraint("organization_id", "schema_slug", "slug"),
        sa.Index("ix_datasets_organization_path", "organization_id", "logical_path"),
        sa.Index("ix_datasets_organization_slug", "organization_id", "slug"),
    )
    op.create_table(
        "dataset_versions",
        *require(ID, "id", primary_key=True),
        refer("dataset_id", "datasets", ondelete="CASCADE", index=True),
        *require(INTEGER, "number", server_default="1"),
        *allow_null(ID, "execution_id", index=True),
        *allow_null(TEXT, "logical_path", index=True),
        *require(STRING, "format", server_default="parquet"),
        *require(JSON, "locations"),
        *allow_null(sa.JSON(none_as_null=True), "files"),
        *allow_null(STRING, "snapshot", "source_format"),
        *require(JSON, "columns"),
        *require(JSON, "partition_by", "keys", server_default="[]"),
        *allow_null(BIGINT, "row_count", "size_bytes"),
        *allow_null(INTEGER, "restored_from"),
        *allow_null(TEXT, "known_pages"),
        *require(TIME, "created_at"),
        sa.UniqueConstraint("dataset_id", "execution_id"),
        sa.Index("ix_dataset_versions_number", "dataset_id", "number"),
    )
    op.create_table(
        "dataset_reads",
        refer("execution_id", "executions", ondelete="CASCADE", primary_key=True),
        refer("dataset_id", "datasets", ondelete="CASCADE", primary_key=True, index=True),
        *require(ID, "version_id", primary_key=True),
    )
    op.create_table(
        "file_removals",
        *require(ID, "id", primary_key=True),
        refer("organization_id", "organizations"),
        *require(TEXT, "location"),
        *allow_null(TIME, "due_at"),
        sa.UniqueConstraint("organization_id", "location"),
        sa.Index("ix_file_removals_due", "due_at"),
    )
    op.create_table(
        "stored_queries",
        *list_owner_columns(),
        *require(TEXT, "sql"),
        *require(sa.String(16), "state"),
        *allow_null(sa.Float(), "progress"),
        *require(JSON, "columns"),
        *allow_null(BIGINT, "row_count", "size_bytes"),
        *allow_null(TEXT, "error"),
        *allow_null(STRING, "error_code"),
        *require(TIME, "heartbeat_at"),
        *allow_null(TIME, "started_at", "completed_at", "expires_at"),
        sa.Index("ix_stored_queries_expires", "expires_at"),
        sa.Index("ix_stored_queries_state", "state", "heartbeat_at"),
    )
    op.create_table(
        "records",
        refer("organization_id", "organizations", primary_key=True),
        *require(HASH, "table_name", primary_key=True),
        *require(ID, "id", primary_key=True),
        *require(TEXT, "document"),
        *require(INTEGER, "size_bytes"),
        *require(TIME, "created_at", "updated_at"),
    )


def create_exchange() -> None:
    op.create_table(
        "packages",
        *list_owner_columns(),
        *require(STRING, "kind"),
        *allow_null(HASH, "digest"),
        *allow_null(BIGINT, "size_bytes"),
        sa.Index("ix_packages_organization_id_kind_digest", "organization_id", "kind", "digest"),
    )
    op.create_table(
        "webhooks",
        *list_owner_columns(),
        refer("project_id", "projects", ondelete="CASCADE", index=True),
        *allow_null(TEXT, "description"),
        *require(JSON, "events"),
        *require(BOOLEAN, "enabled"),
        *allow_null(TEXT, "disabled_reason"),
        *require(TEXT, "secret"),
        *allow_null(TEXT, "previous_secret"),
        *allow_null(TIME, "previous_until"),
        *require(TEXT, "url"),
        *allow_null(TIME, "failing_since"),
    )
    op.create_table(
        "webhook_deliveries",
        *list_message_columns(),
        refer("webhook_id", "webhooks", ondelete="CASCADE"),
        *require(STRING, "type"),
        sa.Index("ix_webhook_deliveries_state_available_at", "state", "available_at"),
        sa.Index("ix_webhook_deliveries_webhook_id_id", "webhook_id", "id"),
    )
    op.create_table(
        "cron_jobs",
        *list_owner_columns(),
        *require(STRING, "name", "namespace", "schedule", "timezone"),
        *allow_null(
            TEXT, "project_id", "job_id", "secret_name", "secret_key", "cluster_provider", "cluster_config_id", "image"
        ),
        *require(TEXT, "url"),
        *allow_null(TIME, "failing_since"),
        *allow_null(TIME, "next_tick_at", index=True),
        sa.UniqueConstraint("organization_id", "namespace", "name"),
    )
    op.create_table(
        "cron_job_calls",
        *list_message_columns(),
        refer("cron_job_id", "cron_jobs", ondelete="CASCADE"),
        *require(TIME, "tick_at"),
        sa.UniqueConstraint("cron_job_id", "tick_at"),
        sa.Index("ix_cron_job_calls_state_available_at", "state", "available_at"),
    )


def create_training() -> None:
    op.create_table(
        "trainings",
        *list_owner_columns(),
        *require(sa.String(32), "provider"),
        *require(STRING, "model"),
        *require(sa.String(16), "state"),
        *require(JSON, "hyperparameters", "sources", "files", "progress"),
        *allow_null(ID, "credential_id"),
        *allow_null(TEXT, "sealed_access", "result", "error"),
        *allow_null(STRING, "provider_job_id", "error_code", "currency"),
        *require(BOOLEAN, "stop_pending"),
        *require(INTEGER, "attempts", "failures"),
        *require(TIME, "due_at"),
        *allow_null(TIME, "failing_since", "started_at", "completed_at"),
        *allow_null(BIGINT, "seconds", "tokens", "cost"),
        sa.Index("ix_trainings_state_due_at", "state", "due_at"),
        sa.Index("ix_trainings_completed", "organization_id", "completed_at"),
    )
    op.create_table(
        "training_datasets",
        *list_owner_columns(),
        *require(sa.String(32), "provider"),
        *require(STRING, "path"),
        *allow_null(TEXT, "description"),
        *require(JSON, "files"),
        *require(BIGINT, "examples"),
        sa.UniqueConstraint("organization_id", "provider", "path"),
    )
