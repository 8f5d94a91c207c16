"""Datasets and their published versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String, Text, UniqueConstraint, event, text
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.orm.attributes import set_committed_value

from core.tables.base import Base, JsonOf, Owned, new_id, now
from core.tables.shared import Sharing

AT_PATH, UNSHARED = text("logical_path IS NOT NULL"), text("shared_id IS NULL")


class Dataset(Owned):
    """A named table. Publishing switches `current_version_id`, the one pointer that readers follow.

    `unshown_version_id` is a restored version of a job's table that Dagster does not show yet. `stored_bytes` are those
    of the files that its versions have together.
    """

    __tablename__ = "datasets"
    __table_args__ = (
        UniqueConstraint("organization_id", "schema_slug", "slug"),
        Index("ix_datasets_organization_slug", "organization_id", "slug"),
        Index("ix_datasets_organization_path", "organization_id", "logical_path"),
    )
    project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    name: Mapped[str]
    schema_slug: Mapped[str]
    slug: Mapped[str]
    logical_path: Mapped[str | None] = mapped_column(Text)
    format: Mapped[str] = mapped_column(default="parquet")
    current_version_id: Mapped[str | None] = mapped_column(String(36))
    unshown_version_id: Mapped[str | None] = mapped_column(String(36), index=True)
    dataset_type: Mapped[str] = mapped_column(default="OUTPUT")
    description: Mapped[str | None] = mapped_column(Text)
    retained_versions: Mapped[int | None]
    retained_days: Mapped[int | None]
    maintained_days: Mapped[int | None]
    maintained_every: Mapped[str | None]
    maintained_at: Mapped[datetime | None]
    stored_bytes: Mapped[int] = mapped_column(BigInteger, default=0)


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """A part of a version: its folder, and the execution that wrote it. It `lacks` some of the version's columns."""

    execution_id: str
    location: str
    rows: int | None = None
    bytes: int | None = None
    lacks: tuple[str, ...] = ()


class DatasetVersion(Sharing, Base):
    """An immutable version of a dataset.

    `locations` are the storage keys of its folders. In formats of plain files an append adds a folder to those of the
    earlier version; a table format (Delta, Iceberg) has one location, and `snapshot` is the version in its log (see
    pipelines/tables/snapshots.py). `files` are the keys of the data files, which readers use without listing a
    folder; null where a table's log tells them, and in versions of earlier releases. Files are in folders for the
    values of the columns `partition_by`; the columns `keys` tell rows apart, where the output has some.
    `number` counts the dataset's versions from 1. A version without an execution has the rows of the earlier version
    `restored_from`, or was uploaded, in `source_format`. `known_pages` is the key of the folder with the pages whose
    rows incremental executions of the job have published up to this version. `partitions` are by their keys, which
    `partition_scheme` gives their meaning. `added_bytes` are those of the files that the version before has not.
    After a cleanup, `files` are stored as `/N/name` below the location N, and loaded as keys again.
    """

    __tablename__ = "dataset_versions"
    __table_args__ = (
        UniqueConstraint("dataset_id", "execution_id"),
        Index("ix_dataset_versions_number", "dataset_id", "number"),
        Index("ix_dataset_versions_logical_path", "logical_path", sqlite_where=AT_PATH, postgresql_where=AT_PATH),
        Index("ix_dataset_versions_unshared", "created_at", sqlite_where=UNSHARED, postgresql_where=UNSHARED),
    )
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id", ondelete="CASCADE"))
    number: Mapped[int] = mapped_column(default=1)
    execution_id: Mapped[str | None] = mapped_column(String(36))
    logical_path: Mapped[str | None] = mapped_column(Text)
    format: Mapped[str] = mapped_column(default="parquet")
    locations: Mapped[list[str]]
    files: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    snapshot: Mapped[str | None]
    source_format: Mapped[str | None]
    columns: Mapped[list[dict[str, Any]]]
    partition_by: Mapped[list[str]] = mapped_column(default=list)
    keys: Mapped[list[str]] = mapped_column(default=list)
    row_count: Mapped[int | None] = mapped_column(BigInteger)
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    added_bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    restored_from: Mapped[int | None]
    partition_scheme: Mapped[str | None] = mapped_column(Text)
    partitions: Mapped[dict[str, StoredPartition]] = mapped_column(JsonOf(dict[str, StoredPartition]), default=dict)
    known_pages: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(default=now)


@event.listens_for(DatasetVersion, "load")
@event.listens_for(DatasetVersion, "refresh")
def _complete_files(version: DatasetVersion, *_context: object) -> None:
    if version.shared_id is not None and version.files:
        set_committed_value(version, "files", [complete_file(each, version.locations) for each in version.files])


def shorten_file(key: str, locations: Sequence[str]) -> str:
    """Return the key of a file as `/N/name` below the location N; as it is where it is below none."""
    for number, location in enumerate(locations):
        if key.startswith(f"{location}/"):
            return f"/{number}{key.removeprefix(location)}"
    return key


def complete_file(stored: str, locations: Sequence[str]) -> str:
    """Return the key of a file that `shorten_file` has shortened."""
    if not stored.startswith("/"):
        return stored
    number, _, name = stored[1:].partition("/")
    return f"{locations[int(number)]}/{name}"


class DatasetRead(Base):
    """A version of a dataset that was frozen for an execution, which reads it."""

    __tablename__ = "dataset_reads"
    execution_id: Mapped[str] = mapped_column(ForeignKey("executions.id", ondelete="CASCADE"), primary_key=True)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True, index=True)
    version_id: Mapped[str] = mapped_column(String(36), primary_key=True)


class FileRemoval(Base):
    """A folder of the storage that no version names: its files are deleted at `due_at`, or never if that is null."""

    __tablename__ = "file_removals"
    __table_args__ = (UniqueConstraint("organization_id", "location"), Index("ix_file_removals_due", "due_at"))
    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    location: Mapped[str] = mapped_column(Text)
    due_at: Mapped[datetime | None]
