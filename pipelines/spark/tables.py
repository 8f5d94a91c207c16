"""Delta and Iceberg tables: one commit writes a version, which readers see whole or not at all.

Each commit names its author, the execution. A driver that was killed between its commit and the service's record of it
leaves a version that was never published; the next writer takes it back before its own commit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.errors import RunError
from pipelines.filesystem import read_file
from pipelines.language.columns import quote_column
from pipelines.language.formats import Mode
from pipelines.language.snapshots import IcebergSnapshot, parse_iceberg_snapshot
from pipelines.planning.context import Target
from pipelines.spark.session import allow_delta_functions

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")  # each holds the values of those before it
_EXACT = 4  # of them are integers
_HISTORY = 50  # commits that are looked at
_TRIES = 5
_CONFLICTS = ("Concurrent", "CommitFailed", "ValidationException", "METADATA_CHANGED", "CONCURRENT")


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table after a commit: all its rows and bytes.

    `written` rows are those of the commit, where its log has them.
    """

    snapshot: str
    columns: tuple[tuple[str, str], ...]
    rows: int
    bytes: int
    partition_by: tuple[str, ...] = ()
    written: int | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry in a table's log."""

    snapshot: str
    author: str | None
    milliseconds: int


class Table(Protocol):
    """A table in a folder."""

    def exists(self) -> bool: ...

    def list_commits(self) -> Sequence[Commit]:
        """Return the newest commits, the last one first."""
        ...

    def restore(self, snapshot: str) -> None:
        """Make an earlier version the current one, by a commit."""
        ...

    def read_columns(self) -> tuple[tuple[str, str], ...]: ...

    def replace(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        """Create the table, or replace its rows and columns."""
        ...

    def append(self, rows: DataFrame) -> None:
        """Add rows, and the columns that the table lacks."""
        ...

    def merge(self, rows: DataFrame, keys: Sequence[str]) -> None:
        """Update the rows with equal keys and add the others, with the columns that the table lacks."""
        ...

    def describe(self, author: str) -> TableVersion:
        """Return the newest version that the author has committed; rows that changed nothing may be without one."""
        ...


@dataclass(frozen=True, slots=True)
class Write:
    """How rows become a version; commits of other writers from `since` (milliseconds) on are kept."""

    mode: Mode
    keys: Sequence[str]
    partition_by: Sequence[str]
    author: str
    since: int


def write_version(table: Table, rows: DataFrame, write: Write, target: Target) -> TableVersion:
    """Commit the rows as the next version of the target's table and return it; raise RunError.

    A commit that conflicts with another writer's is repeated.
    """
    author = f"{write.author}:{uuid4().hex}"
    for attempt in range(1, _TRIES + 1):
        try:
            with _sign(rows.sparkSession, author):
                _commit(table, rows, write, target)
            return table.describe(author)
        except PySparkException as error:
            if attempt == _TRIES or not _is_conflict(error):
                raise
            time.sleep(0.2 * attempt)
    raise AssertionError("the loop returns or raises")


def _commit(table: Table, rows: DataFrame, write: Write, target: Target) -> None:
    begins = target.snapshot is None and not _has_living_writer(table, write, target)
    if not begins:
        _take_back(table, write, target)
    if write.mode in (Mode.OVERWRITE, Mode.ERROR, Mode.IGNORE) or begins or not table.exists():
        table.replace(name_void(rows), write.partition_by)
        return
    fitted = fit_columns(name_void(rows), table.read_columns())
    if write.mode is Mode.MERGE:
        table.merge(fitted, write.keys)
    else:
        table.append(fitted)


def _has_living_writer(table: Table, write: Write, target: Target) -> bool:
    """Return whether a table without a published version has commits that may yet be published."""
    return table.exists() and any(not _is_abandoned(each, write, target) for each in table.list_commits())


def _take_back(table: Table, write: Write, target: Target) -> None:
    """Restore the published version when all commits after it are of writers that ended before this one began."""
    if target.snapshot is None or not table.exists():
        return
    later: list[Commit] = []
    for commit in table.list_commits():
        if commit.snapshot == target.snapshot:
            break
        later.append(commit)
    if later and all(_is_abandoned(each, write, target) for each in later):
        table.restore(target.snapshot)


def _is_abandoned(commit: Commit, write: Write, target: Target) -> bool:
    """Return whether a commit can never be published: its author has ended, or is an earlier attempt of this one."""
    author = (commit.author or "").partition(":")[0]
    if not author:  # of another program, which owns what it does
        return False
    return author == write.author or (commit.milliseconds < write.since and author not in target.writers)


def _is_conflict(error: PySparkException) -> bool:
    text = f"{error.getCondition() or ''} {str(error)[:2000]}"
    return any(name in text for name in _CONFLICTS)


def name_void(rows: DataFrame) -> DataFrame:
    """Return the rows with columns of nulls only as text: tables have no type for them."""
    void = [name for name, type_ in rows.dtypes if type_ == "void"]
    return rows.withColumns({name: F.col(quote_column(name)).cast("string") for name in void}) if void else rows


def fit_columns(rows: DataFrame, columns: Sequence[tuple[str, str]]) -> DataFrame:
    """Return the rows with the types of existing columns, where those hold all values; raise RunError otherwise.

    Names that differ in case only take the existing spelling.
    """
    known = {name.casefold(): (name, type_) for name, type_ in columns}
    selected: list[Any] = []
    for name, type_ in rows.dtypes:
        existing, wanted = known.get(name.casefold(), (name, type_))
        column = F.col(quote_column(name))
        if type_ != wanted:
            if not _holds(wanted, type_):
                raise RunError(
                    f"the column '{existing}' is {wanted} in the dataset and {type_} in the new rows; give it one "
                    "type, with a CAST in sql_query, or write with mode overwrite"
                )
            column = column.cast(wanted)
        selected.append(column.alias(existing))
    return rows.select(*selected)


def _holds(wanted: str, given: str) -> bool:
    """Return whether a column of one type holds all values of another."""
    if given == "void":
        return True
    if wanted not in _NUMBERS or given not in _NUMBERS:
        return False
    place, source = _NUMBERS.index(wanted), _NUMBERS.index(given)
    if source < _EXACT <= place:  # a float has 24 bits for whole numbers, a double 53
        return source <= (1 if wanted == "float" else 2)
    return source < place


_AUTHOR_SETTINGS = (
    "spark.databricks.delta.commitInfo.userMetadata",
    "spark.sql.iceberg.snapshot-property.spindle.author",
)


@contextmanager
def _sign(spark: SparkSession, author: str) -> Generator[None]:
    """Let the commits of the session name their author."""
    for name in _AUTHOR_SETTINGS:
        spark.conf.set(name, author)
    try:
        yield
    finally:
        for name in _AUTHOR_SETTINGS:
            spark.conf.unset(name)


class DeltaTable:
    """A Delta table, through the Java API of its library. Its log is read without it, since that would be Spark jobs.

    The log: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._location = location
        java: Any = spark
        self._session = java._jsparkSession
        self._class = java._jvm.io.delta.tables.DeltaTable
        self._log = java._jvm.org.apache.spark.sql.delta.DeltaLog
        self._nothing = java._jvm.scala.Option.empty()

    def exists(self) -> bool:
        return bool(self._class.isDeltaTable(self._session, self._location))

    def list_commits(self) -> Sequence[Commit]:
        entries = self._read_log(self._load_snapshot().version())
        return [Commit(str(version), entry.get("userMetadata"), entry["timestamp"]) for version, entry in entries]

    def restore(self, snapshot: str) -> None:
        self._open().restoreToVersion(int(snapshot))

    def read_columns(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._spark.read.format("delta").load(self._location).dtypes)

    def replace(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", True)
        writer.partitionBy(*partition_by).save(self._location)

    def append(self, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").option("mergeSchema", True).save(self._location)

    def merge(self, rows: DataFrame, keys: Sequence[str]) -> None:
        java: Any = rows.alias("new")
        merge = self._open().alias("old").merge(java._jdf, build_condition("old", "new", keys))
        with allow_delta_functions(self._spark):
            merge.withSchemaEvolution().whenMatched().updateAll().whenNotMatched().insertAll().execute()

    def describe(self, author: str) -> TableVersion:
        snapshot = self._load_snapshot()
        newest = version, entry = next(self._read_log(snapshot.version()))
        if entry.get("userMetadata") != author:
            found = (each for each in self._read_log(version) if each[1].get("userMetadata") == author)
            version, entry = next(found, newest)
        rows = self._spark.read.format("delta").option("versionAsOf", version).load(self._location)
        signed = entry.get("userMetadata") == author and entry["operation"] == "WRITE"
        metrics: Mapping[str, str] = entry.get("operationMetrics", {}) if signed else {}
        written = int(metrics["numOutputRows"]) if "numOutputRows" in metrics else None
        if written is not None and entry["operationParameters"].get("mode") == "Overwrite":
            total, size = written, int(metrics["numOutputBytes"])
        else:  # two jobs of Spark over the log
            total, size = rows.count(), snapshot.sizeInBytes()
        partitions = tuple(snapshot.metadata().partitionSchema().fieldNames())
        return TableVersion(str(version), tuple(rows.dtypes), total, size, partitions, written)

    def _read_log(self, newest: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield numbers and commits of the newest versions, the last one first."""
        for version in range(newest, max(newest - _HISTORY, -1), -1):
            content = read_file(f"{self._location.rstrip('/')}/_delta_log/{version:020d}.json")
            lines = content.splitlines() if content is not None else ()  # Delta deletes old entries
            for line in lines:
                if line.startswith(b'{"commitInfo"'):
                    yield version, json.loads(line)["commitInfo"]

    def _load_snapshot(self) -> Any:
        return self._log.forTable(self._session, self._location).update(False, self._nothing, self._nothing)

    def _open(self) -> Any:
        return self._class.forPath(self._session, self._location)


class IcebergTable:
    """An Iceberg table without a catalog server: its commit is the rename of a metadata file to the next number."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._location = location
        parent, _, name = location.rstrip("/").rpartition("/")
        warehouse, _, namespace = parent.rpartition("/")
        catalog = f"spindle_{uuid4().hex}"
        for key, value in (("", "org.apache.iceberg.spark.SparkCatalog"), (".type", "hadoop")):
            spark.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
        spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", warehouse or "/")
        spark.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")
        self._name = ".".join(map(quote_column, (catalog, namespace, name)))
        java: Any = spark
        self._iceberg = java._jvm.org.apache.iceberg
        self._tables = self._iceberg.hadoop.HadoopTables(java._jsparkSession.sessionState().newHadoopConf())

    def exists(self) -> bool:
        return bool(self._tables.exists(self._location))

    def list_commits(self) -> Sequence[Commit]:
        commits: list[Commit] = []
        for file, metadata in self._read_metadata():
            if (snapshot := metadata.currentSnapshot()) is not None:
                name = str(IcebergSnapshot(file, str(snapshot.snapshotId())))
                commits.append(Commit(name, snapshot.summary().get("spindle.author"), snapshot.timestampMillis()))
        return commits

    def restore(self, snapshot: str) -> None:
        operations = self._tables.load(self._location).operations()
        file = f"{self._location.rstrip('/')}/metadata/{parse_iceberg_snapshot(snapshot).file}"
        operations.commit(operations.current(), self._iceberg.TableMetadataParser.read(operations.io(), file))

    def read_columns(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._spark.read.table(self._name).dtypes)

    def replace(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        writer = rows.writeTo(self._name).using("iceberg").tableProperty("format-version", "2")
        if partition_by:
            writer = writer.partitionedBy(*(F.col(quote_column(name)) for name in partition_by))
        writer.createOrReplace()

    def append(self, rows: DataFrame) -> None:
        self._add_columns(rows)
        given = {*rows.columns}
        columns = (
            F.col(quote_column(name)) if name in given else F.lit(None).cast(type_).alias(name)
            for name, type_ in self.read_columns()
        )
        rows.select(*columns).writeTo(self._name).append()

    def merge(self, rows: DataFrame, keys: Sequence[str]) -> None:
        self._add_columns(rows)
        view = f"spindle_new_{uuid4().hex}"
        rows.localCheckpoint().createOrReplaceTempView(view)  # the numbering of rows must not be in the plan of a MERGE
        names = [quote_column(name) for name in rows.columns]
        updates = ", ".join(f"old.{name} = new.{name}" for name in names)
        try:
            self._spark.sql(
                f"MERGE INTO {self._name} AS old USING {view} AS new "  # noqa: S608 - names are quoted
                f"ON {build_condition('old', 'new', keys)} "
                f"WHEN MATCHED THEN UPDATE SET {updates} WHEN NOT MATCHED THEN "
                f"INSERT ({', '.join(names)}) VALUES ({', '.join(f'new.{name}' for name in names)})"
            )
        finally:
            self._spark.catalog.dropTempView(view)

    def describe(self, author: str) -> TableVersion:
        found: list[tuple[str, Any]] = []
        for file, metadata in self._read_metadata():
            found.append((file, metadata.currentSnapshot()))
            if found[-1][1] is not None and found[-1][1].summary().get("spindle.author") == author:
                break
        else:
            del found[1:]
        file, snapshot = found[-1]
        summary: Mapping[str, str] = snapshot.summary()
        name = IcebergSnapshot(file, str(snapshot.snapshotId()))
        rows = self._spark.read.option("versionAsOf", name.id).table(self._name)
        total, size = (int(summary.get(key) or 0) for key in ("total-records", "total-files-size"))
        written = int(summary.get("added-records") or 0) if summary.get("spindle.author") == author else None
        return TableVersion(str(name), tuple(rows.dtypes), total, size, written=written)

    def _add_columns(self, rows: DataFrame) -> None:
        known = {name.casefold() for name, _ in self.read_columns()}
        added = [(name, type_) for name, type_ in rows.dtypes if name.casefold() not in known]
        if added:
            columns = ", ".join(f"{quote_column(name)} {type_}" for name, type_ in added)
            self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({columns})")

    def _read_metadata(self) -> Iterator[tuple[str, Any]]:
        """Yield names and contents of the newest metadata files, the last one first."""
        table = self._tables.load(self._location)
        current = table.operations().current()
        files = [str(current.metadataFileLocation())]
        files += [str(each.file()) for each in reversed(list(current.previousFiles()))]
        for file in files[:_HISTORY]:
            yield file.rpartition("/")[2], self._iceberg.TableMetadataParser.read(table.io(), file)


_KINDS: Mapping[str, Callable[[SparkSession, str], Table]] = {"delta": DeltaTable, "iceberg": IcebergTable}


def open_table(spark: SparkSession, format_: str, location: str) -> Table:
    """Return the table of a format in a folder, which need not exist."""
    return _KINDS[format_](spark, location)


def build_condition(old: str, new: str, keys: Sequence[str]) -> str:
    """Return the SQL by which rows of two aliases are the same; nulls are equal."""
    return " AND ".join(f"{old}.{quote_column(key)} <=> {new}.{quote_column(key)}" for key in keys)
