"""The attempt from which an execution has begun anew, and the execution of a webhook's delivery.

Revision ID: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("executions", sa.Column("first_attempt", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("executions", sa.Column("began_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("webhook_deliveries", sa.Column("execution_id", sa.String(36), nullable=True))
    op.create_index("ix_webhook_deliveries_execution_id", "webhook_deliveries", ["execution_id"])
