"""Datasets have a type, a description and a retention, versions a number; reads and removals.

Revision ID: 0018
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
NUMBERS = (
    "UPDATE dataset_versions SET number = (SELECT count(*) FROM dataset_versions AS earlier "
    "WHERE earlier.dataset_id = dataset_versions.dataset_id AND earlier.id <= dataset_versions.id)"
)


def upgrade() -> None:
    op.add_column("datasets", sa.Column("dataset_type", sa.String(), nullable=False, server_default="OUTPUT"))
    op.add_column("datasets", sa.Column("description", sa.Text(), nullable=True))
    op.add_column("datasets", sa.Column("retained_versions", sa.Integer(), nullable=True))
    op.add_column("datasets", sa.Column("retained_days", sa.Integer(), nullable=True))
    op.create_index("ix_datasets_organization_slug", "datasets", ["organization_id", "slug"])
    op.create_index("ix_datasets_organization_path", "datasets", ["organization_id", "logical_path"])
    op.add_column("dataset_versions", sa.Column("number", sa.Integer(), nullable=False, server_default="1"))
    op.execute(NUMBERS)
    op.create_index("ix_dataset_versions_number", "dataset_versions", ["dataset_id", "number"])
    op.create_table(
        "dataset_reads",
        sa.Column("execution_id", sa.String(), nullable=False),
        sa.Column("dataset_id", sa.String(), nullable=False),
        sa.Column("version_id", sa.String(36), nullable=False),
        sa.ForeignKeyConstraint(
            ["execution_id"], ["executions.id"], name="fk_dataset_reads_execution_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_dataset_reads_dataset_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("execution_id", "dataset_id", name="pk_dataset_reads"),
    )
    op.create_index("ix_dataset_reads_dataset_id", "dataset_reads", ["dataset_id"])
    op.create_table(
        "file_removals",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("due_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_file_removals_organization_id"),
        sa.PrimaryKeyConstraint("id", name="pk_file_removals"),
        sa.UniqueConstraint("organization_id", "location", name="uq_file_removals_organization_id_location"),
    )
    op.create_index("ix_file_removals_due", "file_removals", ["due_at"])


def downgrade() -> None:
    for table in ("file_removals", "dataset_reads"):
        op.drop_table(table)
    op.drop_index("ix_dataset_versions_number", "dataset_versions")
    op.drop_column("dataset_versions", "number")
    op.drop_index("ix_datasets_organization_path", "datasets")
    op.drop_index("ix_datasets_organization_slug", "datasets")
    for column in ("retained_days", "retained_versions", "description", "dataset_type"):
        op.drop_column("datasets", column)
