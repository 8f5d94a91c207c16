"""Limits of organizations, and what counts against them.

Revision ID: 0020
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

QUEUED = sa.text("state = 'QUEUED'")
# of an earlier version the files that it has beyond those of the one before it
ADDED = """
UPDATE dataset_versions SET added_bytes = coalesce(size_bytes, 0) - CASE
    WHEN restored_from IS NOT NULL THEN coalesce(size_bytes, 0)
    WHEN snapshot IS NULL AND json_array_length(locations) < 2 THEN 0
    ELSE coalesce((
        SELECT CASE WHEN e.size_bytes < dataset_versions.size_bytes THEN e.size_bytes
            ELSE dataset_versions.size_bytes END
        FROM dataset_versions e
        WHERE e.dataset_id = dataset_versions.dataset_id AND e.number = dataset_versions.number - 1
    ), 0) END
"""
STORED = """
UPDATE datasets SET stored_bytes = coalesce((
    SELECT sum(CASE WHEN v.number = (SELECT min(o.number) FROM dataset_versions o WHERE o.dataset_id = datasets.id)
        THEN coalesce(v.size_bytes, 0) ELSE v.added_bytes END)
    FROM dataset_versions v WHERE v.dataset_id = datasets.id
), 0)
"""


def upgrade() -> None:
    op.create_table(
        "organization_limits",
        sa.Column("organization_id", sa.String(36), nullable=False),
        sa.Column("executions_at_once", sa.Integer(), nullable=True),
        sa.Column("executions_a_day", sa.Integer(), nullable=True),
        sa.Column("storage_bytes", sa.BigInteger(), nullable=True),
        sa.Column("queries_at_once", sa.Integer(), nullable=True),
        sa.Column("day", sa.Date(), nullable=True),
        sa.Column("day_executions", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name=op.f("fk_organization_limits_organization_id")
        ),
        sa.PrimaryKeyConstraint("organization_id", name=op.f("pk_organization_limits")),
    )
    op.create_table(
        "running_queries",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("organization_id", sa.String(36), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name=op.f("fk_running_queries_organization_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_running_queries")),
    )
    op.create_index(op.f("ix_running_queries_organization_id"), "running_queries", ["organization_id"])
    op.create_index(
        "ix_executions_organization_queued",
        "executions",
        ["organization_id", "id"],
        sqlite_where=QUEUED,
        postgresql_where=QUEUED,
    )
    op.add_column("dataset_versions", sa.Column("added_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("datasets", sa.Column("stored_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    op.execute(ADDED)
    op.execute(STORED)
