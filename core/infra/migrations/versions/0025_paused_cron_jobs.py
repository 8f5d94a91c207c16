"""Cron jobs can be paused.

Revision ID: 0025
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("cron_jobs", sa.Column("enabled", sa.Boolean, nullable=False, server_default=sa.true()))
