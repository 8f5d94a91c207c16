"""The table of stations."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "weather_stations",
        sa.Column("organization_id", sa.String(36), nullable=False, index=True),
        sa.Column("place", sa.String(200), nullable=False),
    )
