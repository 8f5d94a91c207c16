"""Generic records, and packages with their links.

Revision ID: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ID = sa.String(36)
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "records",
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("table_name", sa.String(64), nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_records_organization_id"),
        sa.PrimaryKeyConstraint("organization_id", "table_name", "id", name="pk_records"),
    )
    op.create_table(
        "packages",
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_packages_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_packages"),
    )
    op.create_index("ix_packages_organization_id", "packages", ["organization_id"])
    op.create_index("ix_packages_organization_id_kind_digest", "packages", ["organization_id", "kind", "digest"])


def downgrade() -> None:
    op.drop_table("packages")
    op.drop_table("records")
