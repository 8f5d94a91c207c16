"""Iceberg tables without Spark and without a catalog server: small files are merged, and old snapshots expire.

A commit is a metadata file of the next number, which Spark's HadoopTables take for one of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import uuid4

from pipelines.contract.report import TablePart
from pipelines.filesystem import S3Access, delete_file, has_file, list_data_files, write_file
from pipelines.tables.protocol import (
    TARGET_BYTES,
    CommitConflict,
    MergedFiles,
    TableFault,
    Values,
    make_log_fault,
    resolve_file,
    sum_parts,
)
from pipelines.tables.snapshots import LOG_FOLDERS, name_iceberg_snapshot, parse_iceberg_snapshot

if TYPE_CHECKING:
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

_LOG = LOG_FOLDERS["iceberg"]
_METADATA = re.compile(r"v(\d+)\.metadata\.json")


class StoredIcebergTable:
    """Implements StoredTable by the library pyiceberg."""

    def __init__(self, location: str, access: S3Access | None) -> None:
        self._location = location.rstrip("/")
        self._access = access

    def list_files(self, snapshot: str, partition: Values = ()) -> tuple[str, ...]:
        _, tasks = self._plan_files(snapshot, partition)
        if any(task.delete_files for task in tasks):
            raise TableFault(
                "SQL does not read Iceberg tables with delete files. load_iceberg does; rewrite_data_files removes "
                "them.",
                "unsupported-table",
            )
        return tuple(resolve_file(self._location, task.file.file_path) for task in tasks)

    def measure_partitions(self, snapshot: str, columns: tuple[str, ...]) -> tuple[TablePart, ...]:
        table, tasks = self._plan_files(snapshot)
        positions = {
            id_: [[field.name for field in spec.fields].index(name) for name in columns]
            for id_, spec in table.specs().items()
            if {*columns} <= {field.name for field in spec.fields}
        }
        return sum_parts(
            (
                tuple(str(task.file.partition[at]) for at in positions[task.file.spec_id]),
                task.file.record_count,
                task.file.file_size_in_bytes,
            )
            for task in tasks
        )

    def _plan_files(self, snapshot: str, partition: Values = ()) -> tuple[Table, list[FileScanTask]]:
        """Return the table as a snapshot has it, and its files, of one partition or all."""
        from pyiceberg.exceptions import ValidationError

        try:
            table = self.open(parse_iceberg_snapshot(snapshot).file)
            return table, plan_files(table, partition)
        except (OSError, ValueError, ValidationError) as error:
            raise make_log_fault("Iceberg") from error

    def merge_files(self, snapshot: str, author: str) -> MergedFiles | None:
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files  # pyright: ignore[reportPrivateUsage]

        table = self.open()
        keeps = self._is_newest(table, snapshot) and not has_nested_objects(table.schema().as_struct())
        groups = [*_group_small_files(table)] if keeps else []
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
        name = name_iceberg_snapshot(table.metadata_location, newest.snapshot_id)
        return MergedFiles(name, sum(map(len, groups)), written)

    def find_unused_files(self, snapshots: Iterable[str], days: int) -> set[str]:
        from pyiceberg.exceptions import CommitFailedException

        table = self.open()
        metadata, needed = table.metadata, {int(parse_iceberg_snapshot(each).id) for each in snapshots}
        needed |= {each.snapshot_id for each in metadata.refs.values()}
        before = (datetime.now(UTC) - timedelta(days=days)).timestamp() * 1000
        log = sorted(metadata.snapshots, key=lambda each: (each.sequence_number or 0, each.timestamp_ms))
        replaced = [each for each, later in pairwise(log) if later.timestamp_ms <= before]
        expired = [each for each in replaced if each.snapshot_id not in needed]
        if not expired:
            return set()
        kept = [each for each in log if each not in expired]
        unused = _list_files(table.io, expired) - _list_files(table.io, kept)
        try:
            table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in expired]).commit()
        except CommitFailedException as error:
            raise CommitConflict from error
        return {resolve_file(self._location, file) for file in unused}

    def open(self, file: str | None = None) -> Table:
        """Return the table as one of its metadata files describes it, by default the newest."""
        from pyiceberg.exceptions import ValidationError
        from pyiceberg.io import load_file_io
        from pyiceberg.serializers import FromInputFile
        from pyiceberg.table import Table

        properties = name_iceberg_properties(self._access) if self._access else {}
        name = file or self._find_newest()
        address = f"{self._location}/{_LOG}/{name}"
        try:
            io = load_file_io(properties, address)
            metadata = FromInputFile.table_metadata(io.new_input(address))
        except (OSError, ValueError, ValidationError) as error:
            raise make_log_fault("Iceberg") from error
        spelled = f"{metadata.location.rstrip('/')}/{_LOG}/{name}"  # as Spark, which reads earlier ones, spells it
        return Table(("spindle", "table"), metadata, spelled, io, self._make_catalog(properties))

    def begin(self) -> Table:
        """Return a new table without columns, whose first commit creates it."""
        from pyiceberg.io import load_file_io
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
        from pyiceberg.schema import Schema
        from pyiceberg.table import Table
        from pyiceberg.table.metadata import new_table_metadata
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

        properties = name_iceberg_properties(self._access) if self._access else {}
        kept = {"format-version": "2", "write.parquet.compression-codec": "zstd"}  # as Spark creates one
        metadata = new_table_metadata(Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, self._location, kept)
        address = f"{self._location}/{_LOG}/v0.metadata.json"
        io = load_file_io(properties, address)
        return Table(("spindle", "table"), metadata, address, io, self._make_catalog(properties))

    def exists(self) -> bool:
        """Return whether the table has commits of its own, rather than in another program's catalog."""
        return bool(self._list_metadata())

    def _make_catalog(self, properties: dict[str, str]) -> NoopCatalog:
        """Return the catalog of only this table, whose commits are numbered files in its folder."""
        from pyiceberg.catalog.noop import NoopCatalog
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table import CommitTableResponse
        from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
        from pyiceberg.typedef import Identifier

        stored = self

        class FolderCatalog(NoopCatalog):
            def load_table(self, identifier: str | Identifier) -> Table:
                raise CommitFailedException(identifier)  # pyiceberg would repeat a commit upon what it has not seen

            def commit_table(
                self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
            ) -> CommitTableResponse:
                for requirement in requirements:
                    requirement.validate(table.metadata)
                number = parse_number(table.metadata_location) + 1
                before = table.metadata_location if number > 1 else None
                changed = update_table_metadata(table.metadata, updates, metadata_location=before)
                stored.commit_metadata(number, changed)
                address = f"{changed.location.rstrip('/')}/{_LOG}/v{number}.metadata.json"
                return CommitTableResponse.model_validate({"metadata": changed, "metadata-location": address})

        return FolderCatalog("spindle", **properties)

    def _is_newest(self, table: Table, snapshot: str) -> bool:
        """Return whether a snapshot is the table's current one, with the columns that it had."""
        parsed = parse_iceberg_snapshot(snapshot)
        if table.metadata.current_snapshot_id != int(parsed.id):
            return False
        return self.open(parsed.file).metadata.current_schema_id == table.metadata.current_schema_id

    def _find_newest(self) -> str:
        """Return the name of the newest metadata file; raise TableFault where another program's catalog knows it."""
        own = self._list_metadata()
        if not own:
            sentence = "The commits of this Iceberg table are those of another program's catalog, which maintains it"
            raise TableFault(f"{sentence}.", "unsupported-maintenance")
        return max(own, key=parse_number)

    def _list_metadata(self) -> list[str]:
        files = list_data_files(f"{self._location}/{_LOG}", access=self._access)
        return [file.name for file in files if _METADATA.fullmatch(file.name)]

    def commit_metadata(self, number: int, metadata: TableMetadata) -> None:
        """Store the next metadata file; raise CommitFailedException if there is one of this number already.

        On object storage two writers of the same moment may both succeed, as with Spark's own commits.
        """
        from pyiceberg.exceptions import CommitFailedException

        folder = f"{self._location}/{_LOG}"
        final, staged = f"{folder}/v{number}.metadata.json", f"{folder}/{uuid4()}.metadata.json"
        content = metadata.model_dump_json().encode()
        if self._access is not None:
            if has_file(final, self._access):
                raise CommitFailedException(final)
            write_file(final, content, self._access)
        else:
            write_file(staged, content)
            try:
                os.link(staged, final)
            except FileExistsError:
                raise CommitFailedException(final) from None
            finally:
                delete_file(staged)
        write_file(f"{folder}/version-hint.text", str(number).encode(), self._access)
        delete_file(f"{folder}/.version-hint.text.crc", self._access)  # of the number before


def plan_files(table: Table, partition: Values) -> list[FileScanTask]:
    """Return the files of a table with the values of a partition, or all."""
    from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo

    everything: BooleanExpression = AlwaysTrue()
    wanted = (EqualTo(name, value) for name, value in partition)  # pyright: ignore[reportCallIssue]
    return [*table.scan(reduce(And, wanted, everything)).plan_files()]


def has_nested_objects(type_: IcebergType) -> bool:
    """Return whether a type has lists or maps of objects, which pyiceberg 0.12 reads and writes as empty for null."""
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(type_, StructType):
        return any(has_nested_objects(field.field_type) for field in type_.fields)
    inner = type_.element_type if isinstance(type_, ListType) else None
    inner = type_.value_type if isinstance(type_, MapType) else inner
    return inner is not None and (isinstance(inner, StructType) or has_nested_objects(inner))


def _group_small_files(table: Table) -> Iterator[list[FileScanTask]]:
    """Yield several small files of one partition each, which together are no larger than a large file."""
    groups: dict[object, list[FileScanTask]] = {}
    for task in table.scan().plan_files():
        is_nan = any(value != value for value in task.file.partition)  # whose rows pyiceberg 0.12 would lose
        if is_nan or task.file.file_size_in_bytes >= TARGET_BYTES:
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


def parse_number(metadata: str) -> int:
    """Return the number of a commit by the name or address of its metadata file."""
    match = _METADATA.fullmatch(metadata.rpartition("/")[2])
    assert match is not None  # noqa: S101 - `_find_newest` has found it
    return int(match[1])


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
    return {name: value for name, value in options.items() if value is not None}
