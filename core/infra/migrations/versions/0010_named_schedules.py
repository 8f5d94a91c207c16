"""Names of schedules, of which a project may have several, and the schedule of an execution.

Revision ID: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

BEFORE, AFTER = "uq_schedules_project_id", "uq_schedules_project_id_name"
KEPT = ("schedule_ticks", "schedule_tick_jobs")


def upgrade() -> None:
    op.add_column("executions", sa.Column("schedule_name", sa.String(), nullable=True))
    op.add_column("schedules", sa.Column("name", sa.String(), nullable=False, server_default=""))
    op.add_column("schedules", sa.Column("cron_schedule", sa.String(), nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        _replace_table()
    else:
        op.drop_constraint(op.f(BEFORE), "schedules", type_="unique")
        op.create_unique_constraint(op.f(AFTER), "schedules", ["project_id", "name"])


def _replace_table() -> None:
    """SQLite changes a constraint by a new table, and the old one takes the ticks with it when it is dropped."""
    for table in KEPT:
        op.execute(f"CREATE TEMPORARY TABLE kept_{table} AS SELECT * FROM {table}")  # noqa: S608
    with op.batch_alter_table("schedules", recreate="always") as table:
        table.drop_constraint(op.f(BEFORE), type_="unique")
        table.create_unique_constraint(op.f(AFTER), ["project_id", "name"])
    for table in KEPT:
        op.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")  # noqa: S608
        op.execute(f"DROP TABLE kept_{table}")
