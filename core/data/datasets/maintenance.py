"""Maintenance of tables: small files are merged, and those that neither a version nor an execution needs removed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar
from uuid import uuid4

from pydantic import ConfigDict
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.models import MaintenancePlan
from core.data.datasets.repository import DatasetRepository
from core.data.datasets.version_files import explain_table_faults, list_version_files
from core.data.datasets.versions import check_not_written, list_unfinished, schedule_removals
from core.infra.database import Database
from core.infra.records import RECORD
from core.infra.repository import lock_organization
from core.infra.storage.protocol import Storage
from core.tables import Dataset, DatasetVersion, FileRemoval
from pipelines.language.formats import TABLE_FORMATS
from pipelines.tables.stored import open_stored_table


@dataclass(frozen=True, slots=True)
class MaintenanceRecord:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    files_removed: int
    """Number of the data files that no version needs, and that are deleted at `dueAt`."""
    bytes_removed: int
    """Their bytes."""
    due_at: datetime | None
    """When they are deleted: until then queries that began earlier may read them; null without any."""
    files_merged: int = 0
    """Number of the small files of the current version that were written anew as larger ones."""
    files_written: int = 0
    """Number of these larger files."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The table of a dataset's current version."""

    organization_id: str
    format: str
    location: str
    snapshot: str


def maintain_dataset(
    database: Database, storage: Storage, organization_id: str, dataset_id: str, days: int, due_at: datetime
) -> MaintenanceRecord:
    """Merge the small files of a dataset's table, and schedule the removal of its files that no version needs.

    Other formats have nothing to maintain. Raises NotFound, and Conflict while an execution that writes the table has
    not ended, and for Iceberg tables of other programs' catalogs.
    """
    table = _find_table(database, organization_id, dataset_id)
    if table is None:
        return MaintenanceRecord(0, 0, None)
    merged, address = None, storage.url_for(table.location, "sql")
    stored = open_stored_table(table.format, address, storage.export_access())
    if len(list_version_files(storage, organization_id, table.format, [table.location], table.snapshot)) > 1:
        with explain_table_faults():
            merged = stored.merge_files(table.snapshot, f"maintenance:{uuid4().hex}")
    if merged is not None:
        _replace_snapshot(database, table, merged.snapshot)
    with database.read() as session:
        needed = _list_needed_snapshots(session, organization_id, table.location)
    with explain_table_faults():
        keys = {storage.find_key(file) for file in stored.find_unused_files(needed, days)}
    unused = {file.key: file.size_bytes for file in storage.list(table.location) if file.key in keys}
    with database.write() as session:
        lock_organization(session, organization_id)
        query = select(FileRemoval.location).where(FileRemoval.organization_id == organization_id)
        added = {key: size for key, size in unused.items() if key not in {*session.scalars(query)}}
        schedule_removals(session, organization_id, added, due_at)
    counts = (merged.merged, merged.written) if merged else (0, 0)
    return MaintenanceRecord(len(added), sum(added.values()), due_at if added else None, *counts)


def _find_table(database: Database, organization_id: str, dataset_id: str) -> _Table | None:
    with database.read() as session:
        datasets = DatasetRepository(session, organization_id)
        dataset = datasets.get(dataset_id)
        version = datasets.find_version(dataset)
        if version is None or version.snapshot is None or version.format not in TABLE_FORMATS:
            return None
        check_not_written(session, dataset, version)
        return _Table(organization_id, version.format, version.locations[0], version.snapshot)


def _replace_snapshot(database: Database, table: _Table, snapshot: str) -> None:
    """Let the versions of a snapshot name another one, which has their rows in other files.

    The files of the earlier snapshot stay until the next maintenance finds them unused.
    """
    with database.write() as session:
        lock_organization(session, table.organization_id)
        query = select(DatasetVersion).join(Dataset, Dataset.id == DatasetVersion.dataset_id)
        query = query.where(Dataset.organization_id == table.organization_id)
        for version in session.scalars(query.where(DatasetVersion.snapshot == table.snapshot)):
            if table.location in version.locations:
                version.snapshot = snapshot


def list_due(session: Session, at: datetime) -> list[tuple[str, str, int]]:
    """Return the datasets whose plan wants a maintenance now, with organization and days, of all organizations."""
    planned = session.scalars(select(Dataset).where(Dataset.maintained_days.is_not(None))).all()
    return [
        (each.id, each.organization_id, each.maintained_days)
        for each in planned
        if each.maintained_days is not None and (each.maintained_at is None or each.maintained_at <= at - _every(each))
    ]


def _every(dataset: Dataset) -> timedelta:
    return MaintenancePlan(every=dataset.maintained_every or "P1D").parse_every()


def _list_needed_snapshots(session: Session, organization_id: str, location: str) -> set[str]:
    """Return the snapshots of a table that versions name and unfinished executions read."""
    query = select(DatasetVersion.locations, DatasetVersion.snapshot)
    query = query.join(Dataset, Dataset.id == DatasetVersion.dataset_id)
    versions = session.execute(query.where(Dataset.organization_id == organization_id))
    needed = {snapshot for locations, snapshot in versions if location in locations}
    reads = (read for each in list_unfinished(session, organization_id) for read in each.inputs.values())
    needed |= {read.snapshot for read in reads if location in read.locations}
    return {snapshot for snapshot in needed if snapshot is not None}
