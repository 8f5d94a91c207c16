"""What ties the database to a storage and to a service key.

Revision ID: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "installation",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("storage", sa.Text(), nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("previous_token", sa.String(32), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )
