"""Versions of datasets store the keys of their files.

Revision ID: 0021
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dataset_versions", sa.Column("files", sa.JSON()))


def downgrade() -> None:
    op.drop_column("dataset_versions", "files")
