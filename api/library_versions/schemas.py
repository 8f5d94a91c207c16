"""Builds of the engine as JSON."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record
from core.tables import LibraryVersion


class LibraryVersionRecord(Record):
    id: int
    """Id of the version, an integer."""
    build_type: str
    """Kind of the build, such as development; `running` for the engine of this service."""
    build_number: int
    """Number of the build."""
    version: str
    """Version of the engine."""
    jar_path: str | None
    """Where its wheel is in the storage; null without one."""
    jar_path_obfuscated: str | None
    """The last segment of that path."""
    jar_size_bytes: int | None
    """Size of the wheel."""
    digest: str | None
    """SHA-256 of the wheel."""
    uploaded_at: datetime
    """When the version was stored."""
    active: bool
    """Whether projects and jobs may select it."""
    description: str | None


class UploadedFile(Record):
    jar_path: str
    """The path to name in a version."""
    jar_size_bytes: int
    """Size of the file."""
    digest: str
    """SHA-256 of the file."""


def build_version_record(row: LibraryVersion) -> LibraryVersionRecord:
    name = row.jar_path.rpartition("/")[2] if row.jar_path else None
    return LibraryVersionRecord.from_row(row, jar_path_obfuscated=name)
