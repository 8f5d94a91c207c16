"""The jobs that a job depends on.

Revision ID: 0011
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("depends_on", sa.JSON(), nullable=False, server_default="[]"))
