"""Rules of notifications and their messages; freshness and triggers of jobs; events without an execution.

Revision ID: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

RULES, MESSAGES, EVENTS = "notification_rules", "notifications", "execution_events"
ID, TIME = sa.String(36), sa.DateTime(timezone=True)


def upgrade() -> None:
    _create_tables()
    op.add_column("jobs", sa.Column("freshness", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("jobs", sa.Column("stale_at", TIME, nullable=True))
    op.add_column("jobs", sa.Column("trigger", sa.JSON(), nullable=False, server_default="{}"))
    op.create_index("ix_jobs_stale_at", "jobs", ["stale_at"])
    if op.get_bind().dialect.name == "sqlite":
        _replace_events()
    else:
        op.alter_column(EVENTS, "execution_id", nullable=True)


def _create_tables() -> None:
    op.create_table(
        RULES,
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("job_id", ID, nullable=True),
        sa.Column("cloud_credential_id", ID, nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("begin_by", sa.String(), nullable=True),
        sa.Column("end_by", sa.String(), nullable=True),
        sa.Column("timezone", sa.String(), nullable=False),
        sa.Column("min_row_share", sa.Float(), nullable=True),
        sa.Column("max_cost", sa.Float(), nullable=True),
        sa.Column("recipients", sa.JSON(), nullable=False),
        sa.Column("template", sa.JSON(), nullable=False),
        sa.Column("pause_seconds", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_begin_at", TIME, nullable=True),
        sa.Column("next_end_at", TIME, nullable=True),
        sa.Column("next_send_at", TIME, nullable=True),
        sa.Column("failing_since", TIME, nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"]),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project_id", "name"),
    )
    for column in ("organization_id", "job_id", "next_begin_at", "next_end_at"):
        op.create_index(f"ix_{RULES}_{column}", RULES, [column])
    op.create_table(
        MESSAGES,
        sa.Column("id", ID, nullable=False),
        sa.Column("rule_id", ID, nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("tries", sa.JSON(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("available_at", TIME, nullable=False),
        sa.Column("delivered_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["rule_id"], [f"{RULES}.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    for name, columns in (("created_at", ["created_at"]), ("rule_id_id", ["rule_id", "id"])):
        op.create_index(f"ix_{MESSAGES}_{name}", MESSAGES, columns)
    op.create_index(f"ix_{MESSAGES}_state_available_at", MESSAGES, ["state", "available_at"])


def _replace_events() -> None:
    """SQLite changes a column by a new table, which must go on with the ids of the old one."""
    last = op.get_bind().execute(sa.text("SELECT seq FROM sqlite_sequence WHERE name = 'execution_events'")).scalar()
    with op.batch_alter_table(EVENTS, recreate="always", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.alter_column("execution_id", existing_type=ID, nullable=True)
    if last is not None:
        op.execute(f"DELETE FROM sqlite_sequence WHERE name = '{EVENTS}'")  # noqa: S608
        op.execute(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('{EVENTS}', {int(last)})")  # noqa: S608
