"""What executions used and cost, and their totals by day and month.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ID = sa.String(36)
AMOUNTS = (
    "executions",
    "seconds",
    "cpu_ms",
    "memory_mb_seconds",
    "bytes_read",
    "bytes_written",
    "network_bytes",
    "records",
    "tasks",
    "driver_cost",
    "executors_cost",
    "read_cost",
    "write_cost",
    "network_cost",
)


def _amounts() -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in AMOUNTS]


def upgrade() -> None:
    op.create_table(
        "execution_bills",
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("executor_count", sa.BigInteger(), nullable=False),
        sa.Column("executor_seconds", sa.BigInteger(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("region", sa.String(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("driver_instance", sa.String(), nullable=False),
        sa.Column("executor_instance", sa.String(), nullable=False),
        *_amounts(),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_execution_bills_organization_id"),
        sa.PrimaryKeyConstraint("execution_id", "attempt", name="pk_execution_bills"),
    )
    op.create_index("ix_execution_bills_ended", "execution_bills", ["organization_id", "ended_at"])
    keys = ("organization_id", "grain", "start", "project_id", "job_id", "agent_id")
    op.create_table(
        "totals",
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("grain", sa.String(5), nullable=False),
        sa.Column("start", sa.Date(), nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        *_amounts(),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_totals_organization_id"),
        sa.PrimaryKeyConstraint(*keys, name="pk_totals"),
    )


def downgrade() -> None:
    op.drop_table("totals")
    op.drop_table("execution_bills")
