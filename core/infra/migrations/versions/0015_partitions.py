"""Partitions of jobs, executions and versions, and backfills.

Revision ID: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

RUNNING, OF_PARTITION = sa.text("state = 'RUNNING'"), sa.text("partition IS NOT NULL")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("partitions", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("executions", sa.Column("partition", sa.Text(), nullable=True))
    op.add_column("executions", sa.Column("partition_scheme", sa.Text(), nullable=True))
    op.add_column("executions", sa.Column("backfill_id", sa.String(36), nullable=True))
    op.create_index(
        "ix_executions_job_partition",
        "executions",
        ["job_id", "partition"],
        sqlite_where=OF_PARTITION,
        postgresql_where=OF_PARTITION,
    )
    op.create_index("uq_executions_backfill_partition", "executions", ["backfill_id", "partition"], unique=True)
    op.add_column("dataset_versions", sa.Column("partition_scheme", sa.Text(), nullable=True))
    op.add_column("dataset_versions", sa.Column("partitions", sa.JSON(), nullable=False, server_default="{}"))
    op.create_table(
        "backfills",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("organization_id", sa.String(36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("keys", sa.JSON(), nullable=False),
        sa.Column("refused", sa.JSON(), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name=op.f("fk_backfills_organization_id")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_backfills_project_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_backfills_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backfills")),
    )
    op.create_index(op.f("ix_backfills_organization_id"), "backfills", ["organization_id"])
    op.create_index(op.f("ix_backfills_project_id"), "backfills", ["project_id"])
    op.create_index("ix_backfills_job_newest", "backfills", ["job_id", "id"])
    op.create_index("ix_backfills_running", "backfills", ["id"], sqlite_where=RUNNING, postgresql_where=RUNNING)
