"""The restored version of a dataset that Dagster does not show yet.

Revision ID: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("datasets", sa.Column("unshown_version_id", sa.String(36), nullable=True))
    op.create_index("ix_datasets_unshown_version_id", "datasets", ["unshown_version_id"])
