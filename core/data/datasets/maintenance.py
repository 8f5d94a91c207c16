"""Removal of files of Delta tables that neither a version nor an unfinished execution needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import unquote

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.data.datasets.models import MaintenancePlan
from core.data.datasets.repository import DatasetRepository
from core.data.datasets.version_files import list_version_files, name_delta_options
from core.data.datasets.versions import check_not_written, list_unfinished, schedule_removals
from core.errors import Conflict, Unavailable
from core.infra.database import Database
from core.infra.repository import lock_organization
from core.infra.storage.protocol import Storage
from core.tables import Dataset, DatasetVersion, FileRemoval


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The result of a maintenance: files and bytes that are deleted at `due_at`, when no query can be reading them."""

    files_removed: int
    bytes_removed: int
    due_at: datetime | None


def maintain_dataset(
    database: Database, storage: Storage, organization_id: str, dataset_id: str, days: int, due_at: datetime
) -> Maintenance:
    """Schedule the removal of the files of a dataset's table that no version needs; other formats have none of them.

    Raises NotFound, and Conflict for Iceberg tables and while an execution that writes the table has not ended.
    """
    with database.read() as session:
        datasets = DatasetRepository(session, organization_id)
        dataset = datasets.get(dataset_id)
        version = datasets.find_version(dataset)
        if version is None or version.format not in ("delta", "iceberg"):
            return Maintenance(0, 0, None)
        if version.format == "iceberg":
            sentence = "Iceberg tables are not maintained here. Programs that expire snapshots of one do not know"
            raise Conflict(f"{sentence} which of them versions need.", code="unsupported-maintenance")
        check_not_written(session, dataset, version)
        location = version.locations[0]
        snapshots = _list_needed_snapshots(session, organization_id, location)
    unused = _find_unused_files(storage, organization_id, location, snapshots, days)
    with database.write() as session:
        lock_organization(session, organization_id)
        query = select(FileRemoval.location).where(FileRemoval.organization_id == organization_id)
        added = {key: size for key, size in unused.items() if key not in {*session.scalars(query)}}
        schedule_removals(session, organization_id, added, due_at)
    return Maintenance(len(added), sum(added.values()), due_at if added else None)


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


def _find_unused_files(
    storage: Storage, organization_id: str, location: str, snapshots: Iterable[str], days: int
) -> dict[str, int]:
    """Return the keys and sizes of files that neither the snapshots nor the table's newest state have.

    The files are found by a vacuum that deletes nothing: one that does would add commits to the table's log.
    """
    from deltalake import DeltaTable  # a large library, for instances with Delta tables only
    from deltalake.exceptions import DeltaError

    access = storage.export_access()
    try:
        table = DeltaTable(
            storage.url_for(location, "sql"), storage_options=name_delta_options(access) if access else None
        )
        kept = [*map(int, snapshots), table.version()]
        found = table.vacuum(24 * days, dry_run=True, enforce_retention_duration=False, keep_versions=kept)
    except (DeltaError, OSError, ValueError) as error:
        raise Unavailable("The log of this Delta table is missing or damaged.", code="missing-files") from error
    needed = {
        key
        for snapshot in {*snapshots, str(table.version())}
        for key in list_version_files(storage, organization_id, "delta", [location], snapshot)
    }
    stored = {file.key: file.size_bytes for file in storage.list(location) if file.key.endswith(".parquet")}
    unused = {f"{location}/{path}" for each in found for path in (each, unquote(each))}
    return {key: size for key, size in stored.items() if key in unused and key not in needed and "/_" not in key}
