"""Cron jobs, and the calls of their ticks.

Revision ID: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0011"
branch_labels = None
depends_on = None

ID = sa.String(36)
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    _cron_jobs()
    _cron_job_calls()


def downgrade() -> None:
    op.drop_table("cron_job_calls")
    op.drop_table("cron_jobs")


def _cron_jobs() -> None:
    op.create_table(
        "cron_jobs",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("namespace", sa.String(), nullable=False),
        sa.Column("schedule", sa.String(), nullable=False),
        sa.Column("timezone", sa.String(), nullable=False),
        sa.Column("project_id", sa.Text()),
        sa.Column("job_id", sa.Text()),
        sa.Column("secret_name", sa.Text()),
        sa.Column("secret_key", sa.Text()),
        sa.Column("cluster_provider", sa.Text()),
        sa.Column("cluster_config_id", sa.Text()),
        sa.Column("image", sa.Text()),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("failing_since", TIME),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_cron_jobs_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_cron_jobs"),
        sa.UniqueConstraint("organization_id", "namespace", "name", name="uq_cron_jobs_organization_id_namespace_name"),
    )
    op.create_index("ix_cron_jobs_organization_id", "cron_jobs", ["organization_id"])


def _cron_job_calls() -> None:
    op.create_table(
        "cron_job_calls",
        sa.Column("cron_job_id", ID, nullable=False),
        sa.Column("tick_at", TIME, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("tries", sa.JSON(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("available_at", TIME, nullable=False),
        sa.Column("delivered_at", TIME),
        sa.ForeignKeyConstraint(
            ["cron_job_id"], ["cron_jobs.id"], name="fk_cron_job_calls_cron_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_cron_job_calls"),
        sa.UniqueConstraint("cron_job_id", "tick_at", name="uq_cron_job_calls_cron_job_id_tick_at"),
    )
    op.create_index("ix_cron_job_calls_created_at", "cron_job_calls", ["created_at"])
    op.create_index("ix_cron_job_calls_state_available_at", "cron_job_calls", ["state", "available_at"])
