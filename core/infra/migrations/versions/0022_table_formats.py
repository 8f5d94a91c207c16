"""Executions store what they write and the Java libraries for it, versions the columns that they are partitioned by.

Revision ID: 0022
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("executions", sa.Column("outputs", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("executions", sa.Column("libraries", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("dataset_versions", sa.Column("partition_by", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("dataset_versions", "partition_by")
    op.drop_column("executions", "libraries")
    op.drop_column("executions", "outputs")
