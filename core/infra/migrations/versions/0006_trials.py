"""Whether the executions of a job publish, and whether an execution does.

Revision ID: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("publish", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.add_column("executions", sa.Column("publishes", sa.Boolean(), nullable=False, server_default=sa.true()))
