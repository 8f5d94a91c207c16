"""Python extensions of agents, and the row transforms that are frozen for an execution.

Revision ID: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ID = sa.String(36)
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "python_extensions",
        sa.Column("id", ID, nullable=False),
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("agent_id", ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("folded_name", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["organization_id"], ["organizations.id"], name="fk_python_extensions_organization_id"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name="fk_python_extensions_agent_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_python_extensions"),
        sa.UniqueConstraint("agent_id", "folded_name", name="uq_python_extensions_agent_id_folded_name"),
    )
    op.create_index("ix_python_extensions_organization_id", "python_extensions", ["organization_id"])
    op.create_index("ix_python_extensions_agent_id", "python_extensions", ["agent_id"])
    op.add_column("executions", sa.Column("row_transforms", sa.JSON(), nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("executions", "row_transforms")
    op.drop_table("python_extensions")
