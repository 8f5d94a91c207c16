"""The tables of Delta and of Iceberg, through the Java API of their libraries and through Spark."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import reduce
from itertools import chain
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F

from pipelines.columns.appending import ColumnTypes, FittedColumn, fit_columns
from pipelines.columns.widening import adds_fields_only
from pipelines.contract.report import TableVersion
from pipelines.language.columns import quote_column, quote_fields, quote_text
from pipelines.tables.commits import Commit, iter_delta_commits
from pipelines.tables.delta import MAX_COMMITS, read_delta_log, restore_delta_table
from pipelines.tables.delta_functions import allow_delta_functions
from pipelines.tables.protocol import CommitConflict
from pipelines.tables.snapshots import get_version_option, name_iceberg_snapshot, parse_iceberg_snapshot
from pipelines.tables.spark_rows import GONE, list_covered, mark_gone, name_void, select_fitted

DELTA_AUTHOR = "spark.databricks.delta.commitInfo.userMetadata"  # settings of a session that sign its commits
_ICEBERG_AUTHOR = "spark.sql.iceberg.snapshot-property.spindle.author"
_CONFLICTS = (
    *("Concurrent", "CommitFailed", "ValidationException", "METADATA_CHANGED", "CONCURRENT"),
    *("ALREADY_EXISTS", "AlreadyExists", "DELTA_PATH_EXISTS", "PROTOCOL_CHANGED"),  # of two that create a table
)
_WHOLE = ("Overwrite", "ErrorIfExists")  # modes of Delta commits after which a table has only the rows of the commit


class DeltaTable:
    """A Delta table, through the Java API of its library. Its log is read as files: the API would run Spark jobs.

    The log: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self.location = location
        java: Any = spark
        self._session = java._jsparkSession
        self._class = java._jvm.io.delta.tables.DeltaTable
        self._log = java._jvm.org.apache.spark.sql.delta.DeltaLog
        self._none = java._jvm.scala.Option.empty()

    def sign(self, author: str) -> AbstractContextManager[None]:
        return _sign(self._spark, DELTA_AUTHOR, author)

    def exists(self) -> bool:
        return bool(self._class.isDeltaTable(self._session, self.location))

    def iter_commits(self) -> Iterator[Commit]:
        return iter_delta_commits(self.location, self._load_snapshot().version())

    def restore(self, snapshot: str) -> None:
        author = str(self._spark.conf.get(DELTA_AUTHOR))
        if not restore_delta_table(self.location, int(snapshot), author):  # Spark takes 34 jobs
            self._open().restoreToVersion(int(snapshot))

    def read(self, snapshot: str) -> DataFrame:
        return self._spark.read.format("delta").option("versionAsOf", snapshot).load(self.location)

    def read_columns(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._spark.read.format("delta").load(self.location).dtypes)

    def evolve(self, rows: DataFrame) -> DataFrame:
        """Rewrite all files where stored types change; new columns and fields of structs come with the rows.

        Delta's own type widening keeps the files, but Trino leaves these columns out, and deltalake refuses the table.
        """
        stored = self._spark.read.format("delta").load(self.location)
        fitted = name_void(select_fitted(rows, fit_columns(rows.dtypes, stored.dtypes)))
        wanted = dict(fitted.dtypes)
        columns = [FittedColumn(name, name, wanted.get(name, type_)) for name, type_ in stored.dtypes]
        if not all(adds_fields_only(type_, each.type) for (_, type_), each in zip(stored.dtypes, columns, strict=True)):
            self.replace(select_fitted(stored, columns), self.read_partition_columns())
        return fitted

    def create(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        name_void(rows).write.format("delta").mode("errorifexists").partitionBy(*partition_by).save(self.location)

    def replace(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        writer = name_void(rows).write.format("delta").mode("overwrite").option("overwriteSchema", True)
        writer.partitionBy(*partition_by).save(self.location)

    def append(self, rows: DataFrame) -> None:
        whole = _complete(rows, self.read_columns())  # Delta asks for the columns that split the table
        whole.write.format("delta").mode("append").option("mergeSchema", True).save(self.location)

    def read_partition_columns(self) -> tuple[str, ...]:
        return tuple(self._load_snapshot().metadata().partitionSchema().fieldNames())

    def replace_partition(self, rows: DataFrame, partition: Mapping[str, str]) -> None:
        condition = " AND ".join(f"{quote_column(name)} = {quote_text(value)}" for name, value in partition.items())
        writer = rows.write.format("delta").mode("overwrite").option("mergeSchema", True)
        writer.option("replaceWhere", condition).save(self.location)

    def merge(self, rows: DataFrame, keys: Sequence[str], within: str | None) -> None:
        gone = _find_gone(self.read(next(self.iter_commits()).snapshot), rows, keys, within)
        java: Any = (rows if gone is None else mark_gone(rows, gone)).alias("new")
        merge = self._open().alias("old").merge(java._jdf, build_condition("old", "new", keys)).withSchemaEvolution()
        with allow_delta_functions(self._spark):
            if gone is None:
                merge.whenMatched().updateAll().whenNotMatched().insertAll().execute()
                return
            spark: Any = self._spark
            values = spark._jvm.java.util.HashMap()  # all but the mark, which updateAll would add
            for name in map(quote_column, rows.columns):
                values.put(name, f"new.{name}")
            kept = merge.whenMatched(f"new.{GONE}").delete().whenMatched().updateExpr(values)
            kept.whenNotMatched().insertExpr(values).execute()

    def describe(self, author: str) -> TableVersion:
        snapshot = self._load_snapshot()
        commits = read_delta_log(self.location, snapshot.version())
        newest = next(commits)
        by_author = (each for each in chain([newest], commits) if each[1].get("userMetadata") == author)
        version, entry = next(by_author, newest)
        rows = self.read(str(version))
        signed = entry.get("userMetadata") == author and entry["operation"] == "WRITE"
        metrics: Mapping[str, str] = entry.get("operationMetrics", {}) if signed else {}
        written = int(metrics["numOutputRows"]) if "numOutputRows" in metrics else None
        if written is not None and _replaces_all(entry["operationParameters"]):
            total, size = written, int(metrics["numOutputBytes"])
        else:  # two jobs of Spark over the log
            total, size = rows.count(), snapshot.sizeInBytes()
        return TableVersion(str(version), total, size, tuple(rows.dtypes), self.read_partition_columns(), written)

    def _load_snapshot(self) -> Any:
        return self._log.forTable(self._session, self.location).update(False, self._none, self._none)

    def _open(self) -> Any:
        return self._class.forPath(self._session, self.location)


class IcebergTable:
    """An Iceberg table without a catalog server: its commit is the rename of a metadata file to the next number."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self.location = location
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

    def sign(self, author: str) -> AbstractContextManager[None]:
        return _sign(self._spark, _ICEBERG_AUTHOR, author)

    def exists(self) -> bool:
        return bool(self._tables.exists(self.location))

    def iter_commits(self) -> Iterator[Commit]:
        for file, metadata in self._read_metadata():
            if (snapshot := metadata.currentSnapshot()) is not None:
                name = name_iceberg_snapshot(file, snapshot.snapshotId())
                yield Commit(name, snapshot.summary().get("spindle.author"), snapshot.timestampMillis())

    def restore(self, snapshot: str) -> None:
        operations = self._tables.load(self.location).operations()
        parsed = parse_iceberg_snapshot(snapshot)
        current, path = operations.current(), parsed.get_address(self.location)
        restored = self._iceberg.TableMetadataParser.read(operations.io(), path)
        if current.snapshot(int(parsed.id)) is not None:  # the log keeps later snapshots, which versions have
            builder = self._iceberg.TableMetadata.buildFrom(current).setCurrentSchema(restored.currentSchemaId())
            builder = builder.setDefaultPartitionSpec(restored.defaultSpecId())
            restored = builder.setBranchSnapshot(int(parsed.id), "main").build()
        operations.commit(current, restored)

    def read(self, snapshot: str) -> DataFrame:
        return self._spark.read.option("versionAsOf", get_version_option("iceberg", snapshot)).table(self._name)

    def read_columns(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._spark.read.table(self._name).dtypes)

    def evolve(self, rows: DataFrame) -> DataFrame:
        """Add the columns and fields that the table lacks too."""
        fitted = name_void(select_fitted(rows, fit_columns(rows.dtypes, self.read_columns(), scales=False)))
        java: Any = fitted
        schema = self._iceberg.spark.SparkSchemaUtil.convert(java._jdf.schema())
        self._tables.load(self.location).updateSchema().unionByNameWith(schema).commit()
        return fitted

    def create(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        self._make_writer(rows, partition_by).create()

    def replace(self, rows: DataFrame, partition_by: Sequence[str]) -> None:
        self._make_writer(rows, partition_by).replace()

    def append(self, rows: DataFrame) -> None:
        _complete(rows, self.read_columns()).writeTo(self._name).append()

    def read_partition_columns(self) -> tuple[str, ...]:
        return tuple(field.name() for field in self._tables.load(self.location).spec().fields())

    def replace_partition(self, rows: DataFrame, partition: Mapping[str, str]) -> None:
        conditions = [F.col(quote_column(name)) == value for name, value in partition.items()]
        _complete(rows, self.read_columns()).writeTo(self._name).overwrite(reduce(Column.__and__, conditions))

    def merge(self, rows: DataFrame, keys: Sequence[str], within: str | None) -> None:
        gone = _find_gone(self.read(next(self.iter_commits()).snapshot), rows, keys, within)
        view = f"spindle_new_{uuid4().hex}"
        marked = rows if gone is None else mark_gone(rows, gone)
        # a checkpoint, since the numbering of rows must not be in the plan of a MERGE
        marked.localCheckpoint().createOrReplaceTempView(view)
        delete = "" if gone is None else f"WHEN MATCHED AND new.{GONE} THEN DELETE "
        names = [quote_column(name) for name in rows.columns]
        updates = ", ".join(f"old.{name} = new.{name}" for name in names)
        try:
            self._spark.sql(
                f"MERGE INTO {self._name} AS old USING {view} AS new "  # noqa: S608 - names are quoted
                f"ON {build_condition('old', 'new', keys)} {delete}"
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
        name = name_iceberg_snapshot(file, snapshot.snapshotId())
        rows = self.read(name)
        total, size = (int(summary.get(key) or 0) for key in ("total-records", "total-files-size"))
        written = int(summary.get("added-records") or 0) if summary.get("spindle.author") == author else None
        return TableVersion(name, total, size, tuple(rows.dtypes), written=written)

    def _make_writer(self, rows: DataFrame, partition_by: Sequence[str]) -> DataFrameWriterV2:
        writer = name_void(rows).writeTo(self._name).using("iceberg").tableProperty("format-version", "2")
        if partition_by:
            # Spark reads the name again, without its quotes
            writer = writer.partitionedBy(*(F.col(quote_column(quote_column(name))) for name in partition_by))
        return writer

    def _read_metadata(self) -> Iterator[tuple[str, Any]]:
        """Yield addresses and contents of the newest metadata files, the last one first."""
        table = self._tables.load(self.location)
        current = table.operations().current()
        files = [str(current.metadataFileLocation())]
        files += [str(each.file()) for each in reversed(list(current.previousFiles()))]
        for file in files[:MAX_COMMITS]:
            yield file, self._iceberg.TableMetadataParser.read(table.io(), file)


_KINDS: Mapping[str, Callable[[SparkSession, str], DeltaTable | IcebergTable]] = {
    "delta": DeltaTable,
    "iceberg": IcebergTable,
}


def open_table(spark: SparkSession, format_: str, location: str) -> DeltaTable | IcebergTable:
    """Return the table of a format in a folder, which need not exist."""
    return _KINDS[format_](spark, location)


@contextmanager
def _sign(spark: SparkSession, setting: str, author: str) -> Generator[None]:
    """Let the commits of the session name their author; raise CommitConflict where another writer's came first."""
    spark.conf.set(setting, author)
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if _is_conflict(error):
            raise CommitConflict from error
        raise
    finally:
        spark.conf.unset(setting)


def _is_conflict(error: PySparkException | Py4JJavaError) -> bool:
    """Return whether another writer's commit came first; Spark has no Python class for all of these errors."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    text = f"{condition or ''} {str(error)[:2000]}"
    return any(name in text for name in _CONFLICTS)


def _complete(rows: DataFrame, columns: ColumnTypes) -> DataFrame:
    """Return the rows with all columns of a table, null where they have none, and then their others."""
    given = dict.fromkeys(rows.columns)
    lacking = (F.lit(None).cast(quote_fields(type_)).alias(name) for name, type_ in columns if name not in given)
    names = dict.fromkeys(name for name, _ in columns) | given
    return rows.select("*", *lacking).select(*map(quote_column, names))


def _find_gone(stored: DataFrame, rows: DataFrame, keys: Sequence[str], within: str | None) -> DataFrame | None:
    """Return the keys of a table's rows that a merge removes; None without removed rows."""
    if within is None:
        return None
    covered = stored.join(list_covered(rows, within), within, "semi").select(*map(quote_column, keys)).distinct()
    kept = rows.select(*(F.col(quote_column(key)).alias(f"__key{at}") for at, key in enumerate(keys)))
    equal = [F.col(quote_column(key)).eqNullSafe(F.col(f"__key{at}")) for at, key in enumerate(keys)]
    gone = covered.join(kept, equal, "left_anti")
    return gone.localCheckpoint() if not gone.isEmpty() else None


def _replaces_all(parameters: Mapping[str, Any]) -> bool:
    """Return whether the parameters of a Delta commit are those of a write after which a table has only its rows."""
    return parameters.get("mode") in _WHOLE and parameters.get("predicate", "[]") == "[]"


def list_logged_files(rows: DataFrame, format_: str, location: str) -> list[str]:
    """Return the addresses of the data files that a table's log names; `rows` are those of the table."""
    if format_ == "delta":
        return rows.inputFiles()
    files = rows.sparkSession.read.format("iceberg").load(f"{location}#all_files")
    return [row[0] for row in files.select("file_path").distinct().collect()]


def build_condition(old: str, new: str, keys: Sequence[str]) -> str:
    """Return the SQL by which rows of two aliases are the same; nulls are equal."""
    return " AND ".join(f"{old}.{quote_column(key)} <=> {new}.{quote_column(key)}" for key in keys)
