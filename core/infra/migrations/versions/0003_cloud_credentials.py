"""Cloud credentials, and what of them is frozen on an execution.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.String(36)
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "cloud_credentials",
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("secrets", sa.JSON(), nullable=False),
        sa.Column("region", sa.Text(), nullable=True),
        sa.Column("endpoint", sa.Text(), nullable=True),
        sa.Column("engine_id", sa.Text(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_cloud_credentials_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_cloud_credentials"),
    )
    op.create_index("ix_cloud_credentials_organization_id", "cloud_credentials", ["organization_id"])
    op.add_column("executions", sa.Column("credentials", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("executions", sa.Column("sealed_environment", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("executions", "sealed_environment")
    op.drop_column("executions", "credentials")
    op.drop_table("cloud_credentials")
