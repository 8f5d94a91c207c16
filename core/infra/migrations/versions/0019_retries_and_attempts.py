"""Jobs set retries and a timeout; executions store them and their earlier attempts.

Revision ID: 0019
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

RETRIES = (
    ("max_retries", sa.Integer(), "0"),
    ("retry_backoff_seconds", sa.Integer(), "10"),
    ("timeout_seconds", sa.Integer(), "0"),
    ("retry_on", sa.String(), "infrastructure"),
)


def upgrade() -> None:
    for table in ("jobs", "executions"):
        for name, type_, default in RETRIES:
            op.add_column(table, sa.Column(name, type_, nullable=False, server_default=default))
    op.add_column("executions", sa.Column("retries", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("executions", sa.Column("retry_at", sa.DateTime(timezone=True)))
    op.add_column("executions", sa.Column("error_code", sa.String()))
    op.create_table(
        "execution_attempts",
        sa.Column("execution_id", sa.String(36), sa.ForeignKey("executions.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("run_id", sa.String()),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("completed_at", sa.DateTime(timezone=True)),
        sa.Column("error_message", sa.Text()),
        sa.Column("error_code", sa.String()),
        sa.Column("resumed_after", sa.String()),
    )


def downgrade() -> None:
    op.drop_table("execution_attempts")
    for name in ("error_code", "retry_at", "retries"):
        op.drop_column("executions", name)
    for table in ("executions", "jobs"):
        for name, _, _ in reversed(RETRIES):
            op.drop_column(table, name)
