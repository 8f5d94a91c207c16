"""Indexes of rows that stay for ever: those that no query uses go, and some have rows with a value alone.

Revision ID: 0023
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

UNUSED = {"ix_dataset_versions_execution_id": "dataset_versions"} | dict.fromkeys(
    ("ix_tasks_organization_id", "ix_tasks_execution_id"), "tasks"
)
PARTIAL = (
    ("ix_dataset_versions_logical_path", "dataset_versions", ["logical_path"], False),
    ("ix_tasks_scheduled_time", "tasks", ["scheduled_time"], False),
    ("uq_executions_backfill_partition", "executions", ["backfill_id", "partition"], True),
)


def upgrade() -> None:
    for name, table in UNUSED.items():
        op.drop_index(name, table_name=table)
    for name, table, columns, unique in PARTIAL:
        there = sa.text(f"{columns[0]} IS NOT NULL")
        op.drop_index(name, table_name=table)
        op.create_index(name, table, columns, unique=unique, sqlite_where=there, postgresql_where=there)
