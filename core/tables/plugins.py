"""Uploaded plugins, their installations, and builds of the engine. Their ids are integers, as in the specification."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, Owned, now

COUNTED = {"sqlite_autoincrement": True}


class PluginBuild(Base):
    """An uploaded plugin: its wheel in the storage, and the manifest that was made of it.

    Without an organization it belongs to the operator, and its installations say who has it.
    """

    __tablename__ = "plugin_builds"
    __table_args__ = (UniqueConstraint("organization_id", "plugin_id", "build_type", "build_number"), COUNTED)
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"), index=True)
    plugin_id: Mapped[str]
    build_type: Mapped[str]
    build_number: Mapped[int]
    version: Mapped[str]
    digest: Mapped[str] = mapped_column(String(64))
    file_name: Mapped[str]
    main_class: Mapped[str]
    manifest: Mapped[dict[str, Any]] = mapped_column(JSON)
    error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(default=now)


class PluginInstallation(Base):
    """Which organizations have a build; none in `organization_ids` means all.

    Without an organization it belongs to the operator.
    """

    __tablename__ = "plugin_installations"
    __table_args__ = COUNTED
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"), index=True)
    build_id: Mapped[int] = mapped_column(ForeignKey("plugin_builds.id", ondelete="CASCADE"), index=True)
    organization_ids: Mapped[list[str]]
    plugin_type: Mapped[str | None]
    description: Mapped[str | None] = mapped_column(Text)
    enabled: Mapped[bool] = mapped_column(default=True)
    installed_by: Mapped[str] = mapped_column(String(36))
    installed_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)
    enabled_by: Mapped[str | None] = mapped_column(String(36))
    enabled_at: Mapped[datetime | None]


class DisabledPlugin(Base):
    """A plugin, or its builds of one type, that an organization does not use; without an organization, nobody does."""

    __tablename__ = "disabled_plugins"
    __table_args__ = (UniqueConstraint("organization_id", "plugin_id", "build_type"), COUNTED)
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"))
    plugin_id: Mapped[str]
    build_type: Mapped[str]


class LibraryVersion(Base):
    """A build of the engine, with the number of its drivers' protocol; the running one has no file."""

    __tablename__ = "etl_library_versions"
    __table_args__ = (UniqueConstraint("build_type", "build_number"), COUNTED)
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    build_type: Mapped[str]
    build_number: Mapped[int]
    version: Mapped[str]
    jar_path: Mapped[str | None]
    jar_size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    digest: Mapped[str | None] = mapped_column(String(64))
    protocol: Mapped[int | None]
    active: Mapped[bool] = mapped_column(default=True)
    description: Mapped[str | None] = mapped_column(Text)
    uploaded_at: Mapped[datetime] = mapped_column(default=now)


class Package(Owned):
    """An export or upload.

    An upload has neither digest (SHA-256) nor size until its content arrives; one that was rejected has the size 0 and
    no digest.
    """

    __tablename__ = "packages"
    __table_args__ = (Index(None, "organization_id", "kind", "digest"),)
    kind: Mapped[str]
    digest: Mapped[str | None] = mapped_column(String(64))
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
