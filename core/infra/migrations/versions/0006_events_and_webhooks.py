"""Events of executions, webhooks of projects and their deliveries.

Revision ID: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ID = sa.String(36)
TIME = sa.DateTime(timezone=True)
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
QUEUED = sa.text("state = 'QUEUED'")


def upgrade() -> None:
    op.create_index(
        "ix_executions_queued", "executions", ["project_id", "id"], sqlite_where=QUEUED, postgresql_where=QUEUED
    )
    _execution_events()
    _webhooks()
    _webhook_deliveries()


def downgrade() -> None:
    op.drop_table("webhook_deliveries")
    op.drop_table("webhooks")
    op.drop_table("execution_events")
    op.drop_index("ix_executions_queued", "executions")


def _execution_events() -> None:
    op.create_table(
        "execution_events",
        sa.Column("id", COUNT, autoincrement=True, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("execution_id", ID, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["executions.id"], name="fk_execution_events_execution_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_execution_events_project_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_execution_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_execution_events_created_at", "execution_events", ["created_at"])
    op.create_index("ix_execution_events_execution_id_id", "execution_events", ["execution_id", "id"])
    op.create_index("ix_execution_events_project_id_id", "execution_events", ["project_id", "id"])


def _webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.Text()),
        sa.Column("failing_since", TIME),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("previous_secret", sa.Text()),
        sa.Column("previous_until", TIME),
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_webhooks_organization_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_webhooks_project_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
    )
    op.create_index("ix_webhooks_organization_id", "webhooks", ["organization_id"])
    op.create_index("ix_webhooks_project_id", "webhooks", ["project_id"])


def _webhook_deliveries() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", ID, nullable=False),
        sa.Column("webhook_id", ID, nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("tries", sa.JSON(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("available_at", TIME, nullable=False),
        sa.Column("delivered_at", TIME),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name="fk_webhook_deliveries_webhook_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_deliveries"),
    )
    op.create_index("ix_webhook_deliveries_created_at", "webhook_deliveries", ["created_at"])
    op.create_index("ix_webhook_deliveries_state_available_at", "webhook_deliveries", ["state", "available_at"])
    op.create_index("ix_webhook_deliveries_webhook_id_id", "webhook_deliveries", ["webhook_id", "id"])
