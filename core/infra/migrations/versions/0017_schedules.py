"""Schedules of projects with their ticks, and what triggered an execution.

Executions at a job's or task's scheduled time begin with this revision: times that are past were never meant to fire.

Revision ID: 0017
"""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from uuid6 import uuid7

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

ID = sa.String(36)
TIME = sa.DateTime(timezone=True)
WAITING = sa.text("state = 'WAITING'")


def upgrade() -> None:
    op.add_column("executions", sa.Column("trigger", sa.String(), nullable=False, server_default="rest"))
    op.add_column("executions", sa.Column("tick_at", TIME))
    for name in ("jobs", "tasks"):
        op.add_column(name, sa.Column("handled_time", TIME))
        op.create_index(f"ix_{name}_scheduled_time", name, ["scheduled_time"])
        table = sa.table(name, sa.column("scheduled_time", TIME), sa.column("handled_time", TIME))
        past = table.c.scheduled_time <= datetime.now(UTC)
        op.execute(table.update().where(past).values(handled_time=table.c.scheduled_time))
    _schedules()
    _schedule_ticks()
    _schedule_tick_jobs()
    _insert_schedules()


def downgrade() -> None:
    op.drop_table("schedule_tick_jobs")
    op.drop_table("schedule_ticks")
    op.drop_table("schedules")
    for table in ("jobs", "tasks"):
        op.drop_index(f"ix_{table}_scheduled_time", table)
        op.drop_column(table, "handled_time")
    op.drop_column("executions", "tick_at")
    op.drop_column("executions", "trigger")


def _schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("timezone", sa.String(), nullable=False),
        sa.Column("job_id", ID),
        sa.Column("parameters", sa.JSON(), nullable=False),
        sa.Column("execution_request_json", sa.Text()),
        sa.Column("overlap", sa.String(), nullable=False),
        sa.Column("missed", sa.String(), nullable=False),
        sa.Column("next_tick_at", TIME),
        sa.Column("planned_for", sa.Text()),
        sa.Column("agreed_enabled", sa.Boolean()),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_schedules_organization_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_schedules_project_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("project_id", name="uq_schedules_project_id"),
    )
    op.create_index("ix_schedules_next_tick_at", "schedules", ["next_tick_at"])
    op.create_index("ix_schedules_organization_id", "schedules", ["organization_id"])


def _schedule_ticks() -> None:
    op.create_table(
        "schedule_ticks",
        sa.Column("id", ID, nullable=False),
        sa.Column("schedule_id", ID, nullable=False),
        sa.Column("tick_at", TIME, nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedules.id"], name="fk_schedule_ticks_schedule_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_schedule_ticks"),
        sa.UniqueConstraint("schedule_id", "tick_at", name="uq_schedule_ticks_schedule_id_tick_at"),
    )


def _schedule_tick_jobs() -> None:
    op.create_table(
        "schedule_tick_jobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("tick_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("job_name", sa.String(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("overlap", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("code", sa.String()),
        sa.Column("execution_id", ID),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["tick_id"], ["schedule_ticks.id"], name="fk_schedule_tick_jobs_tick_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_schedule_tick_jobs"),
        sa.UniqueConstraint("tick_id", "job_id", name="uq_schedule_tick_jobs_tick_id_job_id"),
    )
    op.create_index(
        "ix_schedule_tick_jobs_waiting",
        "schedule_tick_jobs",
        ["id"],
        sqlite_where=WAITING,
        postgresql_where=WAITING,
    )
    op.create_index("ix_schedule_tick_jobs_job_id", "schedule_tick_jobs", ["job_id"])
    op.create_index("ix_schedule_tick_jobs_execution_id", "schedule_tick_jobs", ["execution_id"])


def _insert_schedules() -> None:
    """Give each project with a cron expression a schedule; the launcher computes its next tick."""
    connection = op.get_bind()
    projects = sa.table("projects", sa.column("id"), sa.column("organization_id"), sa.column("cron_schedule"))
    schedules = sa.table(
        "schedules",
        *(sa.column(name) for name in ("id", "organization_id", "project_id", "timezone", "overlap", "missed")),
        sa.column("enabled", sa.Boolean()),
        sa.column("parameters", sa.JSON()),
        sa.column("created_at", TIME),
        sa.column("updated_at", TIME),
    )
    at = datetime.now(UTC)
    defaults = {"timezone": "UTC", "overlap": "skip", "missed": "latest", "enabled": True, "parameters": {}}
    for row in connection.execute(sa.select(projects).where(projects.c.cron_schedule.is_not(None))).all():
        owner = {"id": str(uuid7()), "organization_id": row.organization_id, "project_id": row.id}
        connection.execute(schedules.insert().values(**owner, **defaults, created_at=at, updated_at=at))
