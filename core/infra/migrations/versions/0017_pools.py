"""Pools of executions over several projects.

Revision ID: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

HOLDING = sa.text("holds_slot")


def upgrade() -> None:
    op.create_table(
        "pools",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("organization_id", sa.String(36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.Column("turns", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name=op.f("fk_pools_organization_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pools")),
        sa.UniqueConstraint("organization_id", "name", name=op.f("uq_pools_organization_id_name")),
    )
    op.create_index(op.f("ix_pools_organization_id"), "pools", ["organization_id"])
    op.add_column("jobs", sa.Column("pools", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("executions", sa.Column("pools", sa.JSON(), nullable=False, server_default="[]"))
    op.create_index(
        "ix_executions_holding", "executions", ["organization_id"], sqlite_where=HOLDING, postgresql_where=HOLDING
    )
