"""The locked packages of agents and of their executions.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    for table in ("agents", "executions"):
        op.add_column(table, sa.Column("package_lock", sa.Text(), nullable=True))
