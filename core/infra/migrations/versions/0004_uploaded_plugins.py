"""The uploaded plugins whose stages an execution runs.

Revision ID: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("executions", sa.Column("plugins", sa.JSON(), nullable=False, server_default="[]"))
