"""Iceberg tables to which the local runner commits Arrow rows, through the library pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipelines.columns.appending import ColumnTypes, fit_columns
from pipelines.columns.types import format_type, get_columns, parse_type
from pipelines.contract.report import TableVersion
from pipelines.errors import RunError, summarize_error
from pipelines.filesystem import find_storage_failure, read_file
from pipelines.language.formats import SPLITTING_TYPES
from pipelines.local.merging import fill_columns, merge_rows
from pipelines.local.tables import find_column, name_void, select_fitted
from pipelines.tables.commits import Commit
from pipelines.tables.delta import MAX_COMMITS
from pipelines.tables.iceberg import StoredIcebergTable, has_nested_objects, parse_number, plan_files
from pipelines.tables.protocol import CommitConflict, SparkOnly, TableFault, find_table_access, refuse, resolve_file
from pipelines.tables.snapshots import name_iceberg_snapshot, parse_iceberg_snapshot

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.types import IcebergType

_AUTHOR = "spindle.author"
_NAMES = {"timestamptz": "timestamp", "timestamp": "timestamp_ntz"}  # of Iceberg's types that Spark names otherwise
_FORMAT = 2  # of the tables that Spark makes


class LocalIcebergTable:
    """Implements Table for Arrow tables."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        self._stored = StoredIcebergTable(location, find_table_access(location))
        self._author = ""

    @contextmanager
    def sign(self, author: str) -> Generator[None]:
        from pyiceberg.exceptions import CommitFailedException

        self._author = author
        with self.explain_failures("written"):
            try:
                if self.exists():
                    refuse(self.find_obstacle())
                yield
            except CommitFailedException as error:
                raise CommitConflict from error

    @contextmanager
    def explain_failures(self, done: str = "read") -> Generator[None]:
        """Raise RunError where the table cannot be read or written."""
        try:
            yield
        except (TableFault, OSError, ValueError) as error:
            failure = find_storage_failure(f"{error} {error.__cause__}")
            raise failure or RunError(f"the table cannot be {done}: {summarize_error(error)}") from error

    def exists(self) -> bool:
        return self._stored.exists()

    def find_column_obstacle(self, schema: pa.Schema) -> SparkOnly | None:
        """Return why only Spark writes rows with these columns; None where pyiceberg does."""
        columns = _convert_schema(schema, self._stored.begin().metadata)
        return SparkOnly.NESTED if has_nested_objects(columns.as_struct()) else None

    def find_obstacle(self) -> SparkOnly | None:
        """Return why only Spark writes the table as it is; None where pyiceberg does."""
        from pyiceberg.transforms import IdentityTransform

        table = self._stored.open()
        metadata, newest = table.metadata, table.current_snapshot()
        order = metadata.sort_order_by_id(metadata.default_sort_order_id)
        if metadata.format_version != _FORMAT or (order and order.fields):
            return SparkOnly.FEATURES
        types = {field.field_id: format_type(_convert_type(field.field_type)) for field in table.schema().fields}
        for field in table.spec().fields:
            if not isinstance(field.transform, IdentityTransform) or types.get(field.source_id) not in SPLITTING_TYPES:
                return SparkOnly.SPLIT
        if has_nested_objects(table.schema().as_struct()):
            return SparkOnly.NESTED
        deletes = newest is not None and int((newest.summary or {}).get("total-delete-files") or 0)
        return SparkOnly.FEATURES if deletes else None

    def measure(self) -> tuple[int, int]:
        """Return the rows and bytes of the newest version."""
        newest = self._stored.open().current_snapshot()
        return _sum(newest.summary if newest else None)

    def iter_commits(self) -> Iterator[Commit]:
        for name, metadata in self._iter_metadata():
            current = metadata.get("current-snapshot-id")
            snapshot = next((each for each in metadata.get("snapshots", ()) if each["snapshot-id"] == current), None)
            if snapshot is not None:
                author = snapshot.get("summary", {}).get(_AUTHOR)
                yield Commit(name_iceberg_snapshot(name, snapshot["snapshot-id"]), author, snapshot["timestamp-ms"])

    def restore(self, snapshot: str) -> None:
        changes = _load_changes()
        parsed, table = parse_iceberg_snapshot(snapshot), self._stored.open()
        restored = self._stored.open(parsed.file).metadata
        if table.snapshot_by_id(int(parsed.id)) is None:
            self._stored.commit_metadata(parse_number(table.metadata_location) + 1, restored)
            return
        # the log keeps later snapshots, which versions have
        main = changes.SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=int(parsed.id))
        schema = changes.SetCurrentSchemaUpdate(schema_id=restored.current_schema_id)
        spec = changes.SetDefaultSpecUpdate(spec_id=restored.default_spec_id)
        table.catalog.commit_table(table, (), (schema, spec, main))

    def read(self, snapshot: str | None = None) -> pa.Table:
        """Return the rows of a version, by default the newest, in the table's types."""
        return _read(self._stored.open(None if snapshot is None else parse_iceberg_snapshot(snapshot).file))

    def read_columns(self) -> ColumnTypes:
        return _list_columns(self._stored.open().schema())

    def rewrites(self, types: Mapping[str, str], stored: ColumnTypes) -> bool:
        """Return whether all files are written anew for rows with columns of these types."""
        return False

    def evolve(self, rows: pa.Table) -> pa.Table:
        """Add the columns and fields that the table lacks too."""
        table = self._stored.open()
        stored = _list_columns(table.schema())
        fitted = name_void(select_fitted(rows, fit_columns(get_columns(rows.schema).types, stored, scales=False)))
        with table.update_schema() as update:
            update.union_by_name(fitted.schema)
        return fitted

    def create(self, rows: pa.Table, partition_by: Sequence[str]) -> None:
        self._write_all(self._stored.begin(), rows, partition_by)

    def replace(self, rows: pa.Table, partition_by: Sequence[str]) -> None:
        self._write_all(self._stored.open(), rows, partition_by)

    def append(self, rows: pa.Table) -> None:
        with self._stored.open().transaction() as transaction:
            self._append(transaction, rows)

    def read_partition_columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in self._stored.open().spec().fields)

    def replace_partition(self, rows: pa.Table, partition: Mapping[str, str]) -> None:
        table = self._stored.open()
        with table.transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties={_AUTHOR: self._author})
            with update.overwrite() as changes:
                for task in plan_files(table, tuple(partition.items())):
                    changes.delete_data_file(task.file)
                for file in _write_files(transaction, rows):
                    changes.append_data_file(file)

    def merge(self, rows: pa.Table, keys: Sequence[str], within: str | None) -> None:
        """Write all rows anew, as a merge into a dataset of files does."""
        table = self._stored.open()
        stored = _read(table)
        _, parts = merge_rows(rows, keys, [stored], stored.schema, within, repeats=True)
        self._write_all(table, pa.concat_tables(parts), [field.name for field in table.spec().fields])

    def describe(self, author: str) -> TableVersion:
        newest = own = None
        for commit in self.iter_commits():
            newest = newest or commit
            if commit.author == author:
                own = commit
                break
        found = own or newest
        assert found is not None  # noqa: S101 - the run has committed
        table = self._stored.open(parse_iceberg_snapshot(found.snapshot).file)
        snapshot = table.current_snapshot()
        rows, size = _sum(snapshot.summary if snapshot else None)
        return TableVersion(found.snapshot, rows, size, tuple(_list_columns(table.schema())))

    def _write_all(self, table: Table, rows: pa.Table, partition_by: Sequence[str]) -> None:
        """Commit the rows as all rows of a table, after which its log has the earlier snapshots still."""
        changes, rows = _load_changes(), name_void(rows)
        partition_by = [find_column(rows.column_names, name) for name in partition_by]
        updates: tuple[TableUpdate, ...] = (changes.RemoveSnapshotRefUpdate(ref_name="main"),)
        wanted, spec = _convert_schema(rows.schema, table.metadata), table.spec().fields
        if _list_columns(wanted) != _list_columns(table.schema()) or [each.name for each in spec] != partition_by:
            updates += _change_columns(table.metadata, wanted, partition_by)
        table.metadata = changes.update_table_metadata(table.metadata, updates)
        with table.transaction() as transaction:
            self._append(transaction, rows)

    def _append(self, transaction: Transaction, rows: pa.Table) -> None:
        update = transaction.update_snapshot(snapshot_properties={_AUTHOR: self._author})
        with update.merge_append() as changes:
            for file in _write_files(transaction, rows):
                changes.append_data_file(file)

    def _iter_metadata(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield names and contents of the newest metadata files, the last one first."""
        table = self._stored.open()
        files = [table.metadata_location, *(each.metadata_file for each in reversed(table.metadata.metadata_log))]
        for file in files[:MAX_COMMITS]:
            content = read_file(resolve_file(self.location, file))
            if content is not None:
                yield file, json.loads(content)


def _read(table: Table) -> pa.Table:
    schema = _make_arrow_schema(table.schema())
    return table.scan().to_arrow().select(schema.names).cast(schema)


def _sum(summary: Any) -> tuple[int, int]:
    """Return the rows and bytes of a snapshot by its summary."""
    rows, size = (int((summary and summary.get(key)) or 0) for key in ("total-records", "total-files-size"))
    return rows, size


def _write_files(transaction: Transaction, rows: pa.Table) -> Iterator[DataFile]:
    from pyiceberg.io.pyarrow import _dataframe_to_data_files  # pyright: ignore[reportPrivateUsage]

    if rows.num_rows:
        metadata = transaction.table_metadata
        whole = fill_columns(rows, _make_arrow_schema(metadata.schema()))
        yield from _dataframe_to_data_files(metadata, whole, transaction._table.io)  # pyright: ignore[reportPrivateUsage]


def _convert_schema(schema: pa.Schema, metadata: TableMetadata) -> Schema:
    """Return the columns of rows with ids that none of the table's columns has had."""
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema, assign_fresh_schema_ids

    ids = count(metadata.last_column_id + 1)
    converted = Catalog._convert_schema_if_needed(schema)  # pyright: ignore[reportPrivateUsage]
    columns = assign_fresh_schema_ids(converted, lambda: next(ids))
    return Schema(*columns.fields, schema_id=max(each.schema_id for each in metadata.schemas) + 1)


def _load_changes() -> Any:
    """Return pyiceberg's classes of changes, whose aliases hide the names of their fields from type checkers."""
    from pyiceberg.table import update

    return update


def _change_columns(metadata: TableMetadata, schema: Schema, partition_by: Sequence[str]) -> tuple[TableUpdate, ...]:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    changes, ids = _load_changes(), count((metadata.last_partition_id or 999) + 1)
    fields = (
        PartitionField(schema.find_field(name).field_id, next(ids), IdentityTransform(), name) for name in partition_by
    )
    spec = PartitionSpec(*fields, spec_id=max(each.spec_id for each in metadata.partition_specs) + 1)
    return (
        changes.AddSchemaUpdate(schema_=schema), changes.SetCurrentSchemaUpdate(schema_id=-1),
        changes.AddPartitionSpecUpdate(spec=spec), changes.SetDefaultSpecUpdate(spec_id=-1),
    )  # fmt: skip


def _list_columns(schema: Schema) -> ColumnTypes:
    return [(field.name, format_type(field.type)) for field in _make_arrow_schema(schema)]


def _make_arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([(field.name, _convert_type(field.field_type)) for field in schema.fields])


def _convert_type(type_: IcebergType) -> pa.DataType:
    """Return the Arrow type of Spark's for a type of Iceberg; raise UnknownType."""
    from pyiceberg.types import DecimalType, ListType, MapType, StructType

    if isinstance(type_, StructType):
        return pa.struct([(field.name, _convert_type(field.field_type)) for field in type_.fields])
    if isinstance(type_, ListType):
        return pa.list_(pa.field("element", _convert_type(type_.element_type)))
    if isinstance(type_, MapType):
        return pa.map_(_convert_type(type_.key_type), _convert_type(type_.value_type))
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return parse_type(_NAMES.get(str(type_), str(type_)))
