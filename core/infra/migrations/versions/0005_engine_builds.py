"""The build of the engine that drives an execution, and the protocol of each build.

Revision ID: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("etl_library_versions", sa.Column("protocol", sa.Integer(), nullable=True))
    op.add_column("executions", sa.Column("engine_build", sa.JSON(), nullable=True))
