"""When the details of an old execution were removed; two indexes that others begin with go.

Revision ID: 0022
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

DETAILED = sa.text("state = 'COMPLETED' AND details_removed_at IS NULL")


def upgrade() -> None:
    op.add_column("executions", sa.Column("details_removed_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_executions_detailed", "executions", ["completed_at"], sqlite_where=DETAILED, postgresql_where=DETAILED
    )
    op.drop_index("ix_executions_organization_id", table_name="executions")
    op.drop_index("ix_dataset_versions_dataset_id", table_name="dataset_versions")
