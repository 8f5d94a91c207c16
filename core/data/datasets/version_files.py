"""The data files of a dataset's version: those in its folders, or those that the snapshot of its table names.

Tables are read from their logs, so that a version keeps its rows while others are written.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from core.errors import Conflict, Unavailable
from core.infra.storage.protocol import InvalidKey, Storage, find_data_files
from core.tables import DatasetVersion
from pipelines.language.formats import TABLE_FORMATS
from pipelines.tables.protocol import CommitConflict, TableFault
from pipelines.tables.snapshots import parse_iceberg_snapshot
from pipelines.tables.stored import list_snapshot_files


@dataclass(frozen=True, slots=True)
class Place:
    """Where a version's files are: addresses of its folders, the newest last, and of an Iceberg table's metadata."""

    locations: Sequence[str]
    metadata_location: str | None = None

    @property
    def location(self) -> str | None:
        """The folder that was written last; the one folder of a table."""
        return self.locations[-1] if self.locations else None


NOWHERE = Place(())


def get_folder_columns(format_: str, partition_by: Iterable[str]) -> list[str]:
    """Return the columns whose values are in the names of folders and not in the files; Iceberg has them in both."""
    return [] if format_ == "iceberg" else list(partition_by)


def locate_version(storage: Storage, version: DatasetVersion | None) -> Place:
    """Return the addresses that Spark and libraries for tables open."""
    if version is None:
        return NOWHERE
    locations = [storage.url_for(location, "spark") for location in version.locations]
    if version.format != "iceberg" or version.snapshot is None:
        return Place(locations)
    return Place(locations, parse_iceberg_snapshot(version.snapshot).get_address(locations[0]))


def list_version_files(
    storage: Storage,
    organization_id: str,
    format_: str,
    locations: Iterable[str],
    snapshot: str | None,
    files: Iterable[str] | None = None,
) -> list[str]:
    """Return the keys of a version's data files: those that it has recorded, or those in its folders or its log.

    Raises Unavailable for files outside the organization's storage, a missing log, and tables that other programs have
    written in a way that needs more than their files.
    """
    folders = list(locations)
    try:
        if files is None:
            keys = [
                key for folder in folders for key in _list_files(storage, organization_id, folder, format_, snapshot)
            ]
        else:
            keys = list(files)
        if not all(key.startswith(f"{organization_id}/") for key in (*keys, *folders)):
            raise InvalidKey
    except InvalidKey:
        sentence = "The files of this dataset are outside the organization's storage."
        raise Unavailable(sentence, code="foreign-files") from None
    return keys


def _list_files(storage: Storage, organization_id: str, folder: str, format_: str, snapshot: str | None) -> list[str]:
    if not folder.startswith(f"{organization_id}/"):
        raise InvalidKey(folder)
    if format_ not in TABLE_FORMATS:
        return [file.key for file in find_data_files(storage, folder)]
    with explain_table_faults():
        address = storage.url_for(folder, "sql")
        named = list_snapshot_files(format_, address, snapshot or "", storage.export_access())
    return [_find_key(storage, folder, file) for file in named]


def _find_key(storage: Storage, folder: str, file: str) -> str:
    """Return the key of a file that a log names; raise InvalidKey for one outside the table's folder."""
    key = storage.find_key(file)
    if key is None or not key.startswith(f"{folder}/") or ".." in key.split("/"):
        raise InvalidKey(file)
    return key


@contextmanager
def explain_table_faults() -> Generator[None]:
    """Raise Unavailable for a table that cannot be read, and Conflict for one that others maintain or have changed."""
    try:
        yield
    except TableFault as fault:
        kind = Conflict if fault.code == "unsupported-maintenance" else Unavailable
        raise kind(str(fault), code=fault.code) from fault
    except CommitConflict as error:
        raise Conflict("Another program has changed this table meanwhile. Try again.", code="conflict") from error
