"""Outlines of agents' plans, and the changes of definitions that the code server reads.

Revision ID: 0016
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", sa.Column("outline", sa.JSON(), nullable=True))
    op.create_table(
        "definition_changes",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("record_id", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_definition_changes")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_definition_changes_created_at"), "definition_changes", ["created_at"])


def downgrade() -> None:
    op.drop_table("definition_changes")
    op.drop_column("agents", "outline")
