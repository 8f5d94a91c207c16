"""Datasets and their published versions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from core.tables.base import Base, Owned, new_id, now


class Dataset(Owned):
    """A named table. Publishing switches `current_version_id`, the one pointer that readers follow."""

    __tablename__ = "datasets"
    __table_args__ = (UniqueConstraint("organization_id", "schema_slug", "slug"),)
    project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    schema_slug: Mapped[str]
    slug: Mapped[str]
    logical_path: Mapped[str | None] = mapped_column(Text)
    format: Mapped[str] = mapped_column(default="parquet")
    current_version_id: Mapped[str | None] = mapped_column(String(36))


class DatasetVersion(Base):
    """An immutable version of a dataset.

    `locations` are the storage keys of its folders. In formats of plain files an append adds a folder to those of the
    earlier version; a table format (Delta, Iceberg) has one location, and `snapshot` is the version in its log.
    """

    __tablename__ = "dataset_versions"
    __table_args__ = (UniqueConstraint("dataset_id", "execution_id"),)
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id", ondelete="CASCADE"), index=True)
    execution_id: Mapped[str | None] = mapped_column(String(36), index=True)
    logical_path: Mapped[str | None] = mapped_column(Text, index=True)
    format: Mapped[str] = mapped_column(default="parquet")
    locations: Mapped[list[str]]
    snapshot: Mapped[str | None]
    columns: Mapped[list[dict[str, Any]]]
    row_count: Mapped[int | None] = mapped_column(BigInteger)
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(default=now)
