"""Iceberg tables without Spark and without a catalog server: small files are merged, and old snapshots expire.

A commit is a metadata file of the next number, which Spark's HadoopTables take for one of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import uuid4

from core.data.datasets.delta_tables import TARGET_BYTES, MergedFiles
from core.data.datasets.version_files import find_iceberg_key, name_iceberg_properties
from core.errors import Conflict, Unavailable
from core.infra.storage.protocol import Storage
from pipelines.tables.snapshots import IcebergSnapshot, parse_iceberg_snapshot

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_METADATA = re.compile(r"v(\d+)\.metadata\.json")


def merge_iceberg_files(storage: Storage, location: str, snapshot: str, author: str) -> MergedFiles | None:
    """Merge the small files of the newest snapshot, which must be this one, and return the next snapshot.

    The files keep their order, and so do the rows. None when there is nothing to merge, or another writer was first.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files  # pyright: ignore[reportPrivateUsage]

    table = open_iceberg_table(storage, location)
    if not _is_newest(storage, location, table, snapshot):
        return None
    groups = [*_group_small_files(table)]
    if not groups:
        return None
    parent, written = table.metadata.current_snapshot_id, 0
    try:
        with table.transaction() as transaction:
            properties = {"spindle.author": author}
            with transaction.update_snapshot(snapshot_properties=properties).overwrite() as changes:
                for group in groups:
                    rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(group)
                    for task in group:
                        changes.delete_data_file(task.file)
                    for file in _dataframe_to_data_files(table.metadata, rows, table.io):
                        changes.append_data_file(file)
                        written += 1
    except CommitFailedException:
        return None
    newest = table.current_snapshot()
    if newest is None or newest.parent_snapshot_id != parent:
        return None
    name = IcebergSnapshot(table.metadata_location.rpartition("/")[2], str(newest.snapshot_id))
    return MergedFiles(str(name), sum(map(len, groups)), written)


def expire_iceberg_snapshots(
    storage: Storage, organization_id: str, location: str, snapshots: Iterable[str], days: int
) -> dict[str, int]:
    """Remove the other snapshots that were replaced so many days ago from the table's metadata.

    Return the keys and sizes of the files that only these had.
    """
    from pyiceberg.exceptions import CommitFailedException

    table = open_iceberg_table(storage, location)
    metadata, needed = table.metadata, {int(parse_iceberg_snapshot(each).id) for each in snapshots}
    needed |= {each.snapshot_id for each in metadata.refs.values()}
    before = (datetime.now(UTC) - timedelta(days=days)).timestamp() * 1000
    log = sorted(metadata.snapshots, key=lambda each: (each.sequence_number or 0, each.timestamp_ms))
    replaced = [each for each, later in pairwise(log) if later.timestamp_ms <= before]
    expired = [each for each in replaced if each.snapshot_id not in needed]
    if not expired:
        return {}
    kept = [each for each in log if each not in expired]
    unused = _list_files(table.io, expired) - _list_files(table.io, kept)
    try:
        table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in expired]).commit()
    except CommitFailedException as error:
        raise Conflict("Another program has changed this table meanwhile. Try again.", code="conflict") from error
    keys = {find_iceberg_key(storage, location, file) for file in unused}
    return {file.key: file.size_bytes for file in storage.list(location) if file.key in keys}


def _is_newest(storage: Storage, location: str, table: Table, snapshot: str) -> bool:
    """Return whether a snapshot is the table's current one, with the columns that it had."""
    file, snapshot_id = parse_iceberg_snapshot(snapshot)
    if table.metadata.current_snapshot_id != int(snapshot_id):
        return False
    return open_iceberg_table(storage, location, file).metadata.current_schema_id == table.metadata.current_schema_id


def _group_small_files(table: Table) -> Iterator[list[FileScanTask]]:
    """Yield several small files of one partition each, which together are no larger than a large file."""
    groups: dict[object, list[FileScanTask]] = {}
    for task in table.scan().plan_files():
        if task.file.file_size_in_bytes >= TARGET_BYTES:
            continue
        place = (task.file.spec_id, repr(task.file.partition))
        group = groups.setdefault(place, [])
        if sum(each.file.file_size_in_bytes for each in (*group, task)) > TARGET_BYTES:
            if len(group) > 1:
                yield group
            groups[place] = group = []
        group.append(task)
    yield from (group for group in groups.values() if len(group) > 1)


def _list_files(io: FileIO, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the addresses of the snapshots' lists, manifests and data files."""
    files: set[str] = set()
    manifests: dict[str, ManifestFile] = {}
    for snapshot in snapshots:
        files.add(snapshot.manifest_list)
        manifests |= {each.manifest_path: each for each in snapshot.manifests(io)}
    for path, manifest in manifests.items():
        files.add(path)
        files |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io)}
    return files


def open_iceberg_table(storage: Storage, location: str, file: str | None = None) -> Table:
    """Return a table as one of its metadata files describes it, by default the newest; commits go to its folder."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
    from pyiceberg.typedef import Identifier

    class FolderCatalog(NoopCatalog):
        """The catalog of one table, whose commits are numbered files in its folder."""

        def load_table(self, identifier: str | Identifier) -> Table:
            return open_iceberg_table(storage, location)

        def commit_table(
            self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
        ) -> CommitTableResponse:
            current = self.load_table(table.name())
            for requirement in requirements:
                requirement.validate(current.metadata)
            changed = update_table_metadata(current.metadata, updates, metadata_location=current.metadata_location)
            number = _parse_number(current.metadata_location.rpartition("/")[2]) + 1
            _commit_metadata(storage, location, number, changed)
            address = f"{changed.location.rstrip('/')}/metadata/v{number}.metadata.json"
            return CommitTableResponse.model_validate({"metadata": changed, "metadata-location": address})

    access = storage.export_access()
    properties = name_iceberg_properties(access) if access else {}
    name = file or _find_newest(storage, location)
    address = f"{storage.url_for(location, 'sql').rstrip('/')}/metadata/{name}"
    try:
        io = load_file_io(properties, address)
        metadata = FromInputFile.table_metadata(io.new_input(address))
    except (OSError, ValueError) as error:
        raise Unavailable("The log of this Iceberg table is missing or damaged.", code="missing-files") from error
    spelled = f"{metadata.location.rstrip('/')}/metadata/{name}"  # as Spark, which reads earlier ones, spells it
    return Table(("spindle", "table"), metadata, spelled, io, FolderCatalog("spindle", **properties))


def _find_newest(storage: Storage, location: str) -> str:
    """Return the name of the newest metadata file; raise Conflict where another program's catalog knows it."""
    names = (file.key.rpartition("/")[2] for file in storage.list(f"{location}/metadata"))
    own = [name for name in names if _METADATA.fullmatch(name)]
    if not own:
        sentence = "The commits of this Iceberg table are those of another program's catalog, which maintains it"
        raise Conflict(f"{sentence}.", code="unsupported-maintenance")
    return max(own, key=_parse_number)


def _parse_number(name: str) -> int:
    match = _METADATA.fullmatch(name)
    assert match is not None  # noqa: S101 - `_find_newest` has found it
    return int(match[1])


def _commit_metadata(storage: Storage, location: str, number: int, metadata: TableMetadata) -> None:
    """Store the next metadata file; raise CommitFailedException if there is one of this number already.

    On object storage two writers of the same moment may both succeed, as with Spark's own commits.
    """
    from pyiceberg.exceptions import CommitFailedException

    folder = f"{location}/metadata"
    key, staged = f"{folder}/v{number}.metadata.json", f"{folder}/{uuid4()}.metadata.json"
    content = metadata.model_dump_json().encode()
    if storage.export_access() is not None:
        if any(file.key == key for file in storage.list(folder)):
            raise CommitFailedException(key)
        storage.put(key, BytesIO(content))
    else:
        storage.put(staged, BytesIO(content))
        try:
            os.link(storage.url_for(staged, "sql"), storage.url_for(key, "sql"))
        except FileExistsError:
            raise CommitFailedException(key) from None
        finally:
            storage.delete(staged)
    storage.put(f"{folder}/version-hint.text", BytesIO(str(number).encode()))
    storage.delete(f"{folder}/.version-hint.text.crc")  # of the number before
