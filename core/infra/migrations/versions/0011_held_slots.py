"""Executions record whether they hold a slot: a cancelled one does until its driver has ended.

Revision ID: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("executions", sa.Column("holds_slot", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute("UPDATE executions SET holds_slot = true WHERE state IN ('PENDING', 'RUNNING')")


def downgrade() -> None:
    op.drop_column("executions", "holds_slot")
