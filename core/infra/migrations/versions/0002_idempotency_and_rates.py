"""Idempotency records and rate counters.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.String(36)
HASH = sa.String(64)
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    _idempotency_records()
    _rate_counters()


def downgrade() -> None:
    op.drop_table("rate_counters")
    op.drop_table("idempotency_records")


def _idempotency_records() -> None:
    op.create_table(
        "idempotency_records",
        sa.Column("organization_id", ID, nullable=False),
        sa.Column("key_hash", HASH, nullable=False),
        sa.Column("fingerprint", HASH, nullable=False),
        sa.Column("result_id", ID, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="fk_idempotency_records_organization_id"
        ),
        sa.PrimaryKeyConstraint("organization_id", "key_hash", name="pk_idempotency_records"),
    )
    op.create_index("ix_idempotency_records_created_at", "idempotency_records", ["created_at"])


def _rate_counters() -> None:
    op.create_table(
        "rate_counters",
        sa.Column("key_id", ID, nullable=False),
        sa.Column("minute", sa.Integer(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", "minute", name="pk_rate_counters"),
    )
