"""The steps of an execution's plan, frozen when it is accepted.

Revision ID: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("executions", sa.Column("steps", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("executions", "steps")
