"""Executions over the stored pages of an earlier one.

Revision ID: 0016
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("executions", sa.Column("pages_of", sa.JSON(), nullable=True))
