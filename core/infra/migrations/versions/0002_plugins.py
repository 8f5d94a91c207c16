"""Uploaded plugins, their installations, and builds of the engine.

Revision ID: 0002
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

COUNTED: dict[str, Any] = {"sqlite_autoincrement": True}


def make_column(name: str, type_: Any, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=nullable)


def count_id() -> sa.Column[Any]:
    return sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True)


def refer_to_owner(*, index: bool = False) -> sa.Column[Any]:
    return sa.Column("organization_id", sa.String(36), sa.ForeignKey("organizations.id"), nullable=True, index=index)


def upgrade() -> None:
    time = sa.DateTime(timezone=True)
    op.create_table(
        "plugin_builds",
        count_id(),
        refer_to_owner(index=True),
        make_column("plugin_id", sa.String()),
        make_column("build_type", sa.String()),
        make_column("build_number", sa.Integer()),
        make_column("version", sa.String()),
        make_column("digest", sa.String(64)),
        make_column("file_name", sa.String()),
        make_column("main_class", sa.String()),
        make_column("manifest", sa.JSON()),
        make_column("error", sa.Text(), nullable=True),
        make_column("created_at", time),
        sa.UniqueConstraint("organization_id", "plugin_id", "build_type", "build_number"),
        **COUNTED,
    )
    op.create_table(
        "plugin_installations",
        count_id(),
        refer_to_owner(index=True),
        sa.Column(
            "build_id",
            sa.Integer(),
            sa.ForeignKey("plugin_builds.id", ondelete="CASCADE"),
            nullable=False,
            index=True,
        ),
        make_column("organization_ids", sa.JSON()),
        make_column("plugin_type", sa.String(), nullable=True),
        make_column("description", sa.Text(), nullable=True),
        make_column("enabled", sa.Boolean()),
        make_column("installed_by", sa.String(36)),
        make_column("installed_at", time),
        make_column("updated_at", time),
        make_column("enabled_by", sa.String(36), nullable=True),
        make_column("enabled_at", time, nullable=True),
        **COUNTED,
    )
    op.create_table(
        "disabled_plugins",
        count_id(),
        refer_to_owner(),
        make_column("plugin_id", sa.String()),
        make_column("build_type", sa.String()),
        sa.UniqueConstraint("organization_id", "plugin_id", "build_type"),
        **COUNTED,
    )
    op.create_table(
        "etl_library_versions",
        count_id(),
        make_column("build_type", sa.String()),
        make_column("build_number", sa.Integer()),
        make_column("version", sa.String()),
        make_column("jar_path", sa.String(), nullable=True),
        make_column("jar_size_bytes", sa.BigInteger(), nullable=True),
        make_column("digest", sa.String(64), nullable=True),
        make_column("active", sa.Boolean()),
        make_column("description", sa.Text(), nullable=True),
        make_column("uploaded_at", time),
        sa.UniqueConstraint("build_type", "build_number"),
        **COUNTED,
    )
