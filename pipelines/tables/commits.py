"""Delta and Iceberg tables: one commit writes a version, which readers see whole or not at all.

Each commit names its author, the execution. A driver that was killed between its commit and the service's record of it
leaves a version that was never published; the next writer takes it back before its own commit.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pipelines.columns.appending import FittedColumn, fit_columns
from pipelines.contract.report import TableVersion
from pipelines.contract.request import Target
from pipelines.errors import RunError
from pipelines.language.columns import quote_column
from pipelines.language.formats import Mode
from pipelines.tables.commit_lease import hold_lease
from pipelines.tables.protocol import CommitConflict

DELTA_AUTHOR = "spark.databricks.delta.commitInfo.userMetadata"  # settings of a session that sign its commits
_ICEBERG_AUTHOR = "spark.sql.iceberg.snapshot-property.spindle.author"
MAX_COMMITS = 50  # the newest ones, among which a run looks for its own
GONE = "__gone"
_TRIES = 5
_CONFLICTS = (
    *("Concurrent", "CommitFailed", "ValidationException", "METADATA_CHANGED", "CONCURRENT"),
    *("ALREADY_EXISTS", "AlreadyExists", "DELTA_PATH_EXISTS", "PROTOCOL_CHANGED"),  # of two that create a table
)


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry in a table's log."""

    snapshot: str
    author: str | None
    milliseconds: int


class Table(Protocol):
    """A table in a folder; `widens_scales` says whether a decimal column may get more digits after the point."""

    location: str
    widens_scales: bool

    def exists(self) -> bool: ...

    def list_commits(self) -> Sequence[Commit]:
        """Return the newest commits, the last one first."""
        ...

    def restore(self, snapshot: str) -> None:
        """Make an earlier version the current one, by a commit that the session signs; raise CommitConflict."""
        ...

    def read(self, snapshot: str) -> DataFrame:
        """Return the rows of a version."""
        ...

    def read_columns(self) -> tuple[tuple[str, str], ...]: ...

    def evolve(self, rows: DataFrame) -> None:
        """Give columns the wider types of the rows that follow, by a commit that changes no value."""
        ...

    def create(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        """Create the table; it is a conflict where another writer has created it."""
        ...

    def replace(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        """Replace the rows and columns of a table."""
        ...

    def append(self, rows: DataFrame) -> None:
        """Add rows, and the columns that the table lacks."""
        ...

    def read_partition_columns(self) -> tuple[str, ...]:
        """Return the columns by whose values the table's files are split."""
        ...

    def replace_partition(self, rows: DataFrame, partition: Mapping[str, str]) -> None:
        """Replace the rows with these values in the columns that split the files, and add columns as an append does."""
        ...

    def merge(self, rows: DataFrame, keys: Sequence[str], gone: DataFrame | None) -> None:
        """Update the rows with equal keys and add the others, with the columns that the table lacks.

        Rows with the keys that are `gone` are removed by the same commit.
        """
        ...

    def describe(self, author: str) -> TableVersion:
        """Return the newest version that the author has committed; rows that changed nothing may be without one."""
        ...


@dataclass(frozen=True, slots=True)
class Write:
    """How rows become a version; `since` is the time in milliseconds at which the run began.

    A merge removes rows of other keys whose value of the column `within` the rows have. The rows of a `partition` have
    these values in the columns by which the table is split, and replace those that have them, too.

    Commits of other writers are kept from the time on at which the target's writers were listed, or else from then.
    """

    mode: Mode
    keys: Sequence[str]
    partition_by: Sequence[str]
    author: str
    since: int
    within: str | None = None
    partition: Mapping[str, str] = field(default_factory=dict[str, str])


def write_version(table: Table, rows: DataFrame, write: Write, target: Target) -> TableVersion:
    """Commit the rows as the next version of the target's table and return it; raise RunError.

    A commit that conflicts with another writer's is repeated.
    """
    author = f"{write.author}:{uuid4().hex}"
    for attempt in range(1, _TRIES + 1):
        try:
            with hold_lease(table.location), _sign(rows.sparkSession, author):
                _commit(table, rows, write, target)
                return table.describe(author)
        except (PySparkException, Py4JJavaError, CommitConflict) as error:
            if not _is_conflict(error):
                raise
            if attempt == _TRIES:
                sentence = f"other writers changed the {target.format or 'new'} table during each of {_TRIES} commits"
                raise RunError(f"{sentence}; run the job again") from error
            time.sleep(0.2 * attempt)
    raise AssertionError("the loop returns or raises")


def _commit(table: Table, rows: DataFrame, write: Write, target: Target) -> None:
    begins = target.snapshot is None and not _has_living_writer(table, write, target)
    if not begins:
        _take_back(table, write, target)
    named = name_void(rows)
    if not table.exists():
        table.create(named, write.partition_by)
        return
    if write.partition and _keeps_partitions(table, write, target):
        fitted = select_fitted(named, fit_columns(named.dtypes, table.read_columns(), table.widens_scales))
        table.evolve(fitted)
        table.replace_partition(fitted, write.partition)
        return
    if write.mode in (Mode.OVERWRITE, Mode.ERROR, Mode.IGNORE) or begins:
        table.replace(named, write.partition_by)
        return
    fitted = select_fitted(named, fit_columns(named.dtypes, table.read_columns(), table.widens_scales))
    table.evolve(fitted)
    if write.mode is Mode.MERGE:
        table.merge(fitted, write.keys, _find_gone(table, fitted, write))
    else:
        table.append(fitted)


def _find_gone(table: Table, rows: DataFrame, write: Write) -> DataFrame | None:
    """Return the keys of the table's rows that a merge removes; None without removed rows."""
    if write.within is None:
        return None
    stored = table.read(table.list_commits()[0].snapshot).join(list_covered(rows, write.within), write.within, "semi")
    gone = stored.select(*map(quote_column, write.keys)).join(rows, [*write.keys], "left_anti")
    return gone.localCheckpoint() if not gone.isEmpty() else None


def list_covered(rows: DataFrame, within: str) -> DataFrame:
    """Return the distinct values of the column `within` that are not null."""
    return rows.select(quote_column(within)).where(F.col(quote_column(within)).isNotNull()).distinct()


def mark_gone(rows: DataFrame, gone: DataFrame) -> DataFrame:
    """Return the rows of a merge with a row for every removed key, in which the column GONE is true."""
    kept = rows.withColumn(GONE, F.lit(False))
    return kept.unionByName(gone.withColumn(GONE, F.lit(True)), allowMissingColumns=True)


def _keeps_partitions(table: Table, write: Write, target: Target) -> bool:
    """Return whether the table has partitions of the same kind, which stay: published ones, or those of living writers.

    Raises RunError for a table that is split otherwise than the published version says.
    """
    columns = table.read_partition_columns()
    if columns != tuple(write.partition):
        if target.fits_types:
            raise RunError(
                f"another program has split the table by {', '.join(columns) or 'nothing'}, and its partitions are by "
                f"{', '.join(write.partition)}: restore an earlier version of the dataset"
            )
        return False
    later = _list_later(table, target)
    return target.fits_types or any(each.author and not _is_abandoned(each, write, target) for each in later)


def _has_living_writer(table: Table, write: Write, target: Target) -> bool:
    """Return whether a table without a published version has commits that may yet be published."""
    return table.exists() and any(not _is_abandoned(each, write, target) for each in table.list_commits())


def _take_back(table: Table, write: Write, target: Target) -> None:
    """Restore the published version when all commits after it are of writers that ended before this one began.

    A version that was made current again is restored past the commits of other programs, too.
    """
    if target.snapshot is None or not table.exists():
        return
    later = _list_later(table, target)
    if target.restored:  # a living writer has restored it before its own commit
        later = [] if any(each.author and not _is_abandoned(each, write, target) for each in later) else later
    elif not all(_is_abandoned(each, write, target) for each in later):
        later = []
    if later:
        table.restore(target.snapshot)


def _list_later(table: Table, target: Target) -> list[Commit]:
    """Return the commits after the published version, the last one first."""
    return [*takewhile(lambda commit: commit.snapshot != target.snapshot, table.list_commits())]


def _is_abandoned(commit: Commit, write: Write, target: Target) -> bool:
    """Return whether a commit can never be published: its author has ended, or is an earlier attempt of this one."""
    author = (commit.author or "").partition(":")[0]
    if not author:  # of another program, which owns what it does
        return False
    since = write.since if target.listed_at is None else target.listed_at
    return author == write.author or (commit.milliseconds < since and author not in target.writers)


def _is_conflict(error: PySparkException | Py4JJavaError | CommitConflict) -> bool:
    """Return whether another writer's commit came first; Spark has no Python class for all of these errors."""
    if isinstance(error, CommitConflict):
        return True
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    text = f"{condition or ''} {str(error)[:2000]}"
    return any(name in text for name in _CONFLICTS)


def name_void(rows: DataFrame) -> DataFrame:
    """Return the rows with columns of nulls only as text: tables have no type for them."""
    void = [name for name, type_ in rows.dtypes if type_ == "void"]
    return rows.withColumns({name: F.col(quote_column(name)).cast("string") for name in void}) if void else rows


def select_fitted(rows: DataFrame, columns: Iterable[FittedColumn]) -> DataFrame:
    """Return the rows with the names and types of existing columns."""
    types = dict(rows.dtypes)
    return rows.select(
        *(
            convert_value(F.col(quote_column(each.name)), types[each.name], each.type).alias(each.existing)
            for each in columns
        )
    )


def convert_value(value: Column, given: str, wanted: str) -> Column:
    """Return a value in another type, in which structs have fields by name; null for the fields that it lacks."""
    if given == wanted:
        return value
    if "struct<" not in wanted or given == "void":
        return value.cast(wanted)
    return _convert(value, DataType.fromDDL(given), DataType.fromDDL(wanted))


def _convert(value: Column, given: DataType, wanted: DataType) -> Column:
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return F.transform(value, lambda item: _convert(item, given.elementType, wanted.elementType))
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return F.transform_values(value, lambda _, item: _convert(item, given.valueType, wanted.valueType))
    if not (isinstance(given, StructType) and isinstance(wanted, StructType)):
        return value.cast(wanted)
    own = {field.name.casefold(): field for field in given}
    fields = (
        _convert(value.getField(own[field.name.casefold()].name), own[field.name.casefold()].dataType, field.dataType)
        if field.name.casefold() in own
        else F.lit(None).cast(field.dataType)
        for field in wanted
    )
    struct = F.struct(*(each.alias(field.name) for each, field in zip(fields, wanted, strict=True)))
    return F.when(value.isNotNull(), struct)


@contextmanager
def _sign(spark: SparkSession, author: str) -> Generator[None]:
    """Let the commits of the session name their author."""
    for name in (DELTA_AUTHOR, _ICEBERG_AUTHOR):
        spark.conf.set(name, author)
    try:
        yield
    finally:
        for name in (DELTA_AUTHOR, _ICEBERG_AUTHOR):
            spark.conf.unset(name)
