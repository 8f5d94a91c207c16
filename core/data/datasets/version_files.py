"""The data files of a dataset's version: those in its folders, or those that the snapshot of its table names.

Tables are read from their logs, so that a version keeps its rows while others are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from core.errors import Unavailable
from core.infra.storage.protocol import InvalidKey, Storage, find_data_files
from core.tables import DatasetVersion
from pipelines.filesystem import S3Access
from pipelines.language.formats import TABLE_FORMATS
from pipelines.tables.delta import list_paths, open_delta_table
from pipelines.tables.snapshots import parse_iceberg_snapshot


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
# what a Delta table may use of newer versions of the format and still be read file by file
READABLE_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "typeWidening"})
REMEMBERED = 256  # snapshots


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
    return Place(locations, f"{locations[0].rstrip('/')}/metadata/{parse_iceberg_snapshot(version.snapshot).file}")


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
    named = _read_log(format_, storage.url_for(folder, "sql"), snapshot or "", storage.export_access())
    return [_find_key(storage, folder, file) for file in named]


def _find_key(storage: Storage, folder: str, file: str) -> str:
    """Return the key of a file that a log names; raise InvalidKey for one outside the table's folder."""
    key = storage.find_key(file)
    if key is None or not key.startswith(f"{folder}/") or ".." in key.split("/"):
        raise InvalidKey(file)
    return key


@lru_cache(REMEMBERED)
def _read_log(format_: str, location: str, snapshot: str, access: S3Access | None) -> tuple[str, ...]:
    """Return the addresses of a snapshot's files, which never change."""
    return (_read_delta if format_ == "delta" else _read_iceberg)(location.rstrip("/"), snapshot, access)


def _read_delta(location: str, snapshot: str, access: S3Access | None) -> tuple[str, ...]:
    from deltalake.exceptions import DeltaError

    try:
        table = open_delta_table(location, access, int(snapshot))
        features = {*(table.protocol().reader_features or ())}
        paths = list_paths(table)
    except (DeltaError, OSError, ValueError) as error:
        raise _make_unreadable("Delta") from error
    if unknown := features - READABLE_FEATURES:
        raise Unavailable(
            f"SQL does not read Delta tables with {', '.join(sorted(unknown))}; load_delta does.",
            code="unsupported-table",
        )
    return tuple(_find_delta_file(location, unquote(path)) for path in paths)


def _find_delta_file(location: str, path: str) -> str:
    """Return the address of a path of the log, which is below the table's folder or absolute."""
    return _get_address(location, path) if path.startswith(("/", "file:")) or "://" in path else f"{location}/{path}"


def _read_iceberg(location: str, snapshot: str, access: S3Access | None) -> tuple[str, ...]:
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.table import StaticTable

    try:
        metadata = f"{location}/metadata/{parse_iceberg_snapshot(snapshot).file}"
        table = StaticTable.from_metadata(metadata, name_iceberg_properties(access) if access else {})
        tasks = list(table.scan().plan_files())
    except (OSError, ValueError, ValidationError) as error:
        raise _make_unreadable("Iceberg") from error
    if any(task.delete_files for task in tasks):
        raise Unavailable(
            "SQL does not read Iceberg tables with delete files. load_iceberg does; rewrite_data_files removes them.",
            code="unsupported-table",
        )
    return tuple(_get_address(location, task.file.file_path) for task in tasks)


def find_iceberg_key(storage: Storage, folder: str, file: str) -> str:
    """Return the key of a file that the table in a folder names; raise InvalidKey for one outside of it."""
    return _find_key(storage, folder, _get_address(storage.url_for(folder, "sql"), file))


def name_iceberg_properties(access: S3Access) -> dict[str, str]:
    """Return the access to a bucket as properties of pyiceberg's FileIO."""
    options = {
        "s3.access-key-id": access.access_key_id,
        "s3.secret-access-key": access.secret_access_key,
        "s3.session-token": access.session_token,
        "s3.region": access.region,
        "s3.endpoint": access.endpoint,
        "s3.force-virtual-addressing": str(not access.path_style).lower(),
    }
    return _select_given(options)


def _select_given(options: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _get_address(location: str, file: str) -> str:
    """Return a file's address in the spelling of the table's own."""
    if "://" in location:
        return file
    path = file.removeprefix("file:")
    return "/" + path.lstrip("/") if path != file else path


def _make_unreadable(name: str) -> Unavailable:
    return Unavailable(f"The log of this {name} table is missing or damaged.", code="missing-files")
