"""Values that old executions, bills and versions have in common.

Revision ID: 0026
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

SHARING = ("executions", "execution_bills", "dataset_versions")
UNSHARED = sa.text("shared_id IS NULL")
DETAILED = sa.text("state = 'COMPLETED' AND shared_id IS NULL")


def upgrade() -> None:
    op.create_table(
        "shared_values",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("organization_id", sa.String(36), nullable=False),
        sa.Column("job_id", sa.String(36), nullable=True),
        sa.Column("dataset_id", sa.String(36), nullable=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name=op.f("fk_shared_values_organization_id")
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_shared_values_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_shared_values_dataset_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shared_values")),
        sa.UniqueConstraint("digest", name=op.f("uq_shared_values_digest")),
        sqlite_autoincrement=True,
    )
    for owner in ("organization_id", "job_id", "dataset_id"):
        op.create_index(op.f(f"ix_shared_values_{owner}"), "shared_values", [owner])
    for table in SHARING:
        op.add_column(table, sa.Column("shared_id", sa.Integer(), nullable=True))
    op.create_index(
        "ix_dataset_versions_unshared",
        "dataset_versions",
        ["created_at"],
        sqlite_where=UNSHARED,
        postgresql_where=UNSHARED,
    )
    op.drop_index("ix_executions_detailed", table_name="executions")
    op.create_index(
        "ix_executions_detailed", "executions", ["completed_at"], sqlite_where=DETAILED, postgresql_where=DETAILED
    )
