"""Cron jobs can be paused.

Revision ID: 0026
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0022"


def upgrade() -> None:
    op.add_column("cron_jobs", sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()))
