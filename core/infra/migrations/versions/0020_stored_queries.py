"""Queries run in the background, and their results are kept for a time.

Revision ID: 0020
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "stored_queries",
        sa.Column("sql", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("progress", sa.Float(), nullable=True),
        sa.Column("columns", sa.JSON(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("error_code", sa.String(), nullable=True),
        sa.Column("heartbeat_at", TIME, nullable=False),
        sa.Column("started_at", TIME, nullable=True),
        sa.Column("completed_at", TIME, nullable=True),
        sa.Column("expires_at", TIME, nullable=True),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_stored_queries_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_stored_queries"),
    )
    op.create_index("ix_stored_queries_organization_id", "stored_queries", ["organization_id"])
    op.create_index("ix_stored_queries_state", "stored_queries", ["state", "heartbeat_at"])
    op.create_index("ix_stored_queries_expires", "stored_queries", ["expires_at"])


def downgrade() -> None:
    op.drop_table("stored_queries")
