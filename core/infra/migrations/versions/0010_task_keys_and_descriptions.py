"""Keys of tasks, encrypted; descriptions of cloud credentials; arguments of executions that set no parameter.

Revision ID: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("sealed_api_key", sa.Text(), nullable=True))
    op.add_column("cloud_credentials", sa.Column("description", sa.Text(), nullable=True))
    op.add_column("executions", sa.Column("arguments", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("executions", "arguments")
    op.drop_column("cloud_credentials", "description")
    op.drop_column("tasks", "sealed_api_key")
