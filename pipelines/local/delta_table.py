"""Delta tables to which the local runner commits Arrow rows, through the library deltalake."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute

from pipelines.columns.appending import ColumnTypes, fit_columns
from pipelines.columns.types import format_type, get_columns, parse_type
from pipelines.columns.widening import adds_fields_only
from pipelines.contract.report import TableVersion
from pipelines.duckdb.views import quote_identifier
from pipelines.errors import RunError, summarize_error
from pipelines.filesystem import find_storage_failure
from pipelines.language.formats import SPLITTING_TYPES
from pipelines.local.merging import merge_rows
from pipelines.local.tables import find_column, name_void, select_fitted
from pipelines.tables.commits import Commit, iter_delta_commits
from pipelines.tables.delta import (
    SHORT,
    can_open,
    find_type_obstacle,
    is_plain,
    keeps_paths,
    name_delta_options,
    open_delta_table,
    read_delta_log,
    read_schema,
    sign_delta_commit,
    sum_files,
)
from pipelines.tables.protocol import CommitConflict, SparkOnly, find_table_access, refuse

if TYPE_CHECKING:
    from deltalake import DeltaTable

pc: Any = pyarrow.compute  # its functions are made when it is imported
NO_CONDITIONS = (
    "the table cannot be written: the bucket's server refuses conditional PUTs, by which a Delta table is committed "
    "without Spark; set `spindle: {engine: spark}`"
)
_UNCONDITIONAL = re.compile("(?i)not ?(yet )?implemented")


class LocalDeltaTable:
    """Implements Table for Arrow tables."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        self._access = find_table_access(location)
        self._author = ""

    @contextmanager
    def sign(self, author: str) -> Generator[None]:
        from deltalake.exceptions import CommitFailedError

        self._author = author
        with self.explain_failures("written"):
            try:
                if self.exists():
                    refuse(self.find_obstacle())
                yield
            except CommitFailedError as error:
                raise CommitConflict from error

    @contextmanager
    def explain_failures(self, done: str = "read") -> Generator[None]:
        """Raise RunError where the table cannot be read or written."""
        from deltalake.exceptions import DeltaError

        try:
            yield
        except (DeltaError, OSError, ValueError) as error:
            if self._access and _UNCONDITIONAL.search(str(error)):
                raise RunError(NO_CONDITIONS) from error
            failure = find_storage_failure(f"s3a.: {self.location}: {error}") if self._access else None
            raise failure or RunError(f"the table cannot be {done}: {summarize_error(error)}") from error

    def exists(self) -> bool:
        from deltalake import DeltaTable

        return DeltaTable.is_deltatable(self.location, self._make_options())

    def find_column_obstacle(self, schema: pa.Schema) -> SparkOnly | None:
        """Return why only Spark writes rows with these columns; None where deltalake does."""
        return find_type_obstacle(schema) if can_open(self.location) else SparkOnly.PLACE

    def find_obstacle(self) -> SparkOnly | None:
        """Return why only Spark writes the table as it is; None where deltalake does."""
        if not can_open(self.location):
            return SparkOnly.PLACE
        table = self._open()
        if not is_plain(table):
            return SparkOnly.FEATURES
        if (obstacle := find_type_obstacle(read_schema(table))) is not None:
            return obstacle
        types = dict(_list_columns(table))
        if not {types[name] for name in table.metadata().partition_columns} <= SPLITTING_TYPES:
            return SparkOnly.SPLIT
        return None if keeps_paths(table) else SparkOnly.PATHS

    def measure(self) -> tuple[int, int]:
        """Return the rows and bytes of the newest version."""
        return sum_files(self._open())

    def iter_commits(self) -> Iterator[Commit]:
        return iter_delta_commits(self.location, self._open().version())

    def restore(self, snapshot: str) -> None:
        signed, log = sign_delta_commit(self._author)
        self._open().restore(int(snapshot), commit_properties=signed, post_commithook_properties=log)

    def read(self, snapshot: str | None = None) -> pa.Table:
        """Return the rows of a version, by default the newest, in the table's types."""
        return _read(self._open(None if snapshot is None else int(snapshot)))

    def read_columns(self) -> ColumnTypes:
        return _list_columns(self._open())

    def rewrites(self, types: Mapping[str, str], stored: ColumnTypes) -> bool:
        """Return whether all files are written anew for rows with columns of these types."""
        fitted = {each.existing: each.type for each in fit_columns([*types.items()], stored)}
        return not all(adds_fields_only(type_, fitted.get(name, type_)) for name, type_ in stored)

    def evolve(self, rows: pa.Table) -> pa.Table:
        """Write all files anew where stored types change; new columns and fields of structs come with the rows."""
        table = self._open()
        stored = _list_columns(table)
        fitted = select_fitted(rows, [*fit_columns(get_columns(rows.schema).types, stored)])
        wanted = dict(get_columns(fitted.schema).types)
        if self.rewrites(wanted, stored):
            widened = pa.schema([(name, parse_type(wanted.get(name, type_))) for name, type_ in stored])
            self._write_anew(table, _read(table).cast(widened))
        return fitted

    def create(self, rows: pa.Table, partition_by: Sequence[str]) -> None:
        from deltalake.exceptions import DeltaError

        try:
            self._write(rows, "error", _find_all(rows, partition_by))
        except DeltaError as error:
            if self.exists():
                raise CommitConflict from error
            raise

    def replace(self, rows: pa.Table, partition_by: Sequence[str]) -> None:
        self._write(rows, "overwrite", _find_all(rows, partition_by), schema_mode="overwrite")

    def append(self, rows: pa.Table) -> None:
        table = self._open()
        self._write(rows, "append", table.metadata().partition_columns, table, schema_mode="merge")

    def read_partition_columns(self) -> tuple[str, ...]:
        return tuple(self._open().metadata().partition_columns)

    def replace_partition(self, rows: pa.Table, partition: Mapping[str, str]) -> None:
        equal = (f"{quote_identifier(name)} = {_quote(value)}" for name, value in partition.items())
        self._write(rows, "overwrite", [*partition], schema_mode="merge", predicate=" AND ".join(equal))

    def merge(self, rows: pa.Table, keys: Sequence[str], within: str | None) -> None:
        """Write all rows anew, as a merge into a dataset of files does."""
        table = self._open()
        stored = _read(table)
        _, parts = merge_rows(rows, keys, [stored], stored.schema, within, repeats=True)
        self._write_anew(table, pa.concat_tables(parts))

    def describe(self, author: str) -> TableVersion:
        newest = self._open().version()
        log = read_delta_log(self.location, newest)
        table = self._open(next((version for version, entry in log if entry.get("userMetadata") == author), newest))
        count, size = sum_files(table)
        partitions = tuple(table.metadata().partition_columns)
        return TableVersion(str(table.version()), count, size, tuple(_list_columns(table)), partitions)

    def _open(self, version: int | None = None) -> DeltaTable:
        return open_delta_table(self.location, self._access, version, SHORT)

    def _make_options(self) -> dict[str, str] | None:
        return {**name_delta_options(self._access), **SHORT} if self._access else None

    def _write_anew(self, table: DeltaTable, rows: pa.Table) -> None:
        """Replace the rows of a version that was read, unless another writer has committed since."""
        columns = table.metadata().partition_columns
        self._write(rows, "overwrite", columns, table, rebases=False, schema_mode="overwrite")

    def _write(
        self,
        rows: pa.Table,
        mode: Literal["error", "append", "overwrite"],
        partition_by: Sequence[str],
        table: DeltaTable | None = None,
        rebases: bool = True,
        **how: Any,
    ) -> None:
        from deltalake import WriterProperties, write_deltalake

        rows = name_void(rows)
        for name in {*partition_by} & {*rows.column_names}:
            rows = _null_empty_texts(rows, name)
        signed, log = sign_delta_commit(self._author, checkpoints=True, rebases=rebases)
        write_deltalake(
            table or self.location, rows, mode=mode, storage_options=self._make_options(),
            writer_properties=WriterProperties(compression="ZSTD"), commit_properties=signed,
            post_commithook_properties=log, partition_by=[*partition_by],
            **how,
        )  # fmt: skip


def _null_empty_texts(rows: pa.Table, name: str) -> pa.Table:
    """Return the rows with null for empty texts in a column that splits the table, as the format reads them."""
    values = rows.column(name)
    if not pa.types.is_string(values.type):
        return rows
    return rows.set_column(rows.column_names.index(name), name, pc.if_else(pc.equal(values, ""), None, values))


def _find_all(rows: pa.Table, names: Sequence[str]) -> list[str]:
    return [find_column(rows.column_names, name) for name in names]


def _read(table: DeltaTable) -> pa.Table:
    from deltalake import QueryBuilder

    schema = pa.schema([(name, parse_type(type_)) for name, type_ in _list_columns(table)])
    found = pa.table(QueryBuilder().register("stored", table).execute("SELECT * FROM stored").read_all())
    return found.select(schema.names).cast(schema)


def _quote(text: str) -> str:
    """Quote a text for the SQL of deltalake."""
    return "'" + text.replace("'", "''") + "'"


def _list_columns(table: DeltaTable) -> ColumnTypes:
    return [(field.name, format_type(field.type)) for field in read_schema(table)]
