"""What a session of a provider is called there, and the provider's sign-outs that were followed.

Revision ID: 0024
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.add_column("console_sessions", sa.Column("provider_session_hash", sa.String(64), nullable=True))
    op.add_column("console_sessions", sa.Column("id_token", sa.String(), nullable=True))
    op.create_index(op.f("ix_console_sessions_provider_session_hash"), "console_sessions", ["provider_session_hash"])
    op.create_table(
        "provider_tokens",
        sa.Column("id_hash", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id_hash", name=op.f("pk_provider_tokens")),
    )
