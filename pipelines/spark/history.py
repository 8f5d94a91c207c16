"""The next version of a history on Spark: a full outer join of the current one with the rows of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from pipelines.columns.appending import fit_columns
from pipelines.contract.context import escape_pattern
from pipelines.contract.report import Changes, WrittenFiles
from pipelines.engine.history import States, Transition, describe_key_fault
from pipelines.errors import RunError
from pipelines.filesystem import delete_folder
from pipelines.language.columns import declare_columns, quote_column, quote_fields
from pipelines.language.formats import HISTORY_TYPES, TABLE_FORMATS, Mode
from pipelines.spark.observations import wait_for_observation
from pipelines.tables.commits import Write, write_version
from pipelines.tables.spark_rows import name_void, select_fitted
from pipelines.tables.spark_tables import open_table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIDE, _FAULT = "_side", "_fault"
_OLD, _NEW, _ASIDE = 0, 1, 2  # of a joined pair, and keys of rows that were set aside
_UNCOMPARABLE = ("map<", "variant")
_COUNTS = ("added", "changed", "retired", "kept", "matched")


@dataclass(frozen=True, slots=True)
class NextVersion:
    """The rows of the next version; the observations have the changes when these are computed.

    `observed` are counts of added, changed, retired, kept and matched keys, and the latest time of current rows;
    `observed_closed` is that of the others.
    """

    rows: DataFrame
    run: _RunRows
    observed: Observation
    observed_closed: Observation | None = None

    def read_states(self) -> States:
        """Return the changes; raise RunError for keys of the run that are there twice or without a value."""
        run_rows = self.run.read_count()
        added, changed, retired, kept, matched, latest = wait_for_observation(self.observed) or [0] * 5 + [None]
        closed = wait_for_observation(self.observed_closed) if self.observed_closed else None
        times = [each for each in (latest, closed[0] if closed else None) if each is not None]
        return States(
            Changes(added, changed, retired),
            kept,
            _EPOCH + timedelta(microseconds=max(times)) if times else None,
            run_rows,
            repeated=added + matched != run_rows,
        )


def build_next_version(rows: DataFrame, transition: Transition, aside: DataFrame | None = None) -> NextVersion:
    """Return the rows of the next version, in which keys of rows that were set `aside` stay as they are."""
    transition.check_columns(rows.columns)
    if not transition.continues:
        run, observed = _observe_keys(name_void(rows), transition.output.keys), Observation()
        begun = run.rows.drop(_FAULT).observe(observed, *_count_added())
        return NextVersion(_add_validity(begun, transition.at), run, observed)
    earlier = _read_earlier(rows.sparkSession, transition)
    known = [each for each in earlier.dtypes if each[0] not in HISTORY_TYPES]
    fitted = name_void(select_fitted(rows, fit_columns(rows.dtypes, known)))
    return _join(earlier, _observe_keys(fitted, transition.output.keys), transition, aside)


def write_history(
    rows: DataFrame, path: str, transition: Transition, author: str, since: int, aside: DataFrame | None = None
) -> tuple[WrittenFiles | None, Changes]:
    """Write the next version to a new folder `path`, or to the target's table; nothing where there is no difference."""
    from pipelines.spark.output import write_parquet

    version, output = build_next_version(rows, transition, aside), transition.output
    if output.format not in TABLE_FORMATS:
        written = write_parquet(version.rows, path)
        states = version.read_states()
        changes = transition.finish(states)
        if transition.continues and not changes.any:
            delete_folder(path)
            return None, changes
        return replace(written, rows=states.run_rows, total_rows=written.rows), changes
    kept = version.rows.persist(StorageLevel.DISK_ONLY)  # the commit comes after the counts
    try:
        kept.count()
        states = version.read_states()
        changes = transition.finish(states)
        if transition.continues and not changes.any:
            return None, changes
        table = open_table(rows.sparkSession, output.format, transition.target.location or path)
        write = Write(Mode.OVERWRITE, (), output.partition_by, author, since)
        committed = write_version(table, kept, write, transition.target)
    finally:
        kept.unpersist()
    return WrittenFiles.from_version(committed, states.run_rows), changes


def _read_earlier(spark: SparkSession, transition: Transition) -> DataFrame:
    target = transition.target
    if target.snapshot is not None:
        return open_table(spark, transition.output.format, target.location or "").read(target.snapshot)
    schema = declare_columns(target.columns)
    return spark.read.schema(schema).parquet(*map(escape_pattern, target.paths))


@dataclass(frozen=True, slots=True)
class _RunRows:
    """The rows of a run; once they are computed, `read_count` tells whether their keys differ."""

    rows: DataFrame
    keys: Sequence[str]
    observed: Observation

    def read_count(self) -> int:
        """Return the number of rows; raise RunError naming the first keys that are there twice or without a value."""
        count, faults = wait_for_observation(self.observed) or (0, 0)
        if faults:
            names = [*map(quote_column, self.keys)]
            first = self.rows.where(_FAULT).select(*names).orderBy(*names).first()
            raise RunError(describe_key_fault(self.keys, [*(first or ())]))
        return int(count)


def _observe_keys(rows: DataFrame, keys: Sequence[str]) -> _RunRows:
    """Return the rows with a mark on keys that are there twice or without a value, in the order of the join."""
    names, observed = [*map(quote_column, keys)], Observation()
    missing = reduce(Column.__or__, (F.col(name).isNull() for name in names))
    marked = rows.withColumn(_FAULT, missing | (F.count(F.lit(1)).over(Window.partitionBy(*names)) > 1))
    counts = (F.count(F.lit(1)).alias("rows"), F.count_if(F.col(_FAULT)).alias("faults"))
    return _RunRows(marked.observe(observed, *counts), keys, observed)


def _count_added() -> list[Column]:
    """Return the counts of a run that begins a history: all of its rows are added."""
    none = [F.count(F.lit(None)).alias(name) for name in _COUNTS[1:]]
    return [F.count(F.lit(1)).alias(_COUNTS[0]), *none, F.lit(None).cast("bigint").alias("latest")]


def _add_validity(rows: DataFrame, at: datetime) -> DataFrame:
    return rows.select(
        "*",
        _make_time(at).alias("valid_from"),
        F.lit(None).cast("timestamp").alias("valid_to"),
        F.lit(True).alias("is_current"),
    )


def _join(earlier: DataFrame, run: _RunRows, transition: Transition, aside: DataFrame | None) -> NextVersion:
    """Return the next version: closed states as they are, and each pair of current state and row as one or two."""
    old_types = {name: type_ for name, type_ in earlier.dtypes if name not in HISTORY_TYPES}
    fitted = run.rows.drop(_FAULT)
    new_types = dict(fitted.dtypes)
    is_open, closed_observed, observed = F.col("valid_to").isNull(), Observation(), Observation()
    closed = earlier.where(~is_open).observe(closed_observed, F.max(F.unix_micros("valid_to")).alias("latest"))
    old = earlier.where(is_open).select(
        *(F.col(quote_column(name)).alias(_place(_OLD, at)) for at, name in enumerate(old_types)), "valid_from"
    )
    new = fitted.select(*(F.col(quote_column(name)).alias(_place(_NEW, at)) for at, name in enumerate(new_types)))
    places = {
        _OLD: {name: _place(_OLD, at) for at, name in enumerate(old_types)},
        _NEW: {name: _place(_NEW, at) for at, name in enumerate(new_types)},
    }
    keys = [next(name for name in old_types if name.casefold() == key.casefold()) for key in transition.output.keys]
    joined = old.join(new, [old[places[_OLD][key]] == new[places[_NEW][key]] for key in keys], "full_outer")
    names = transition.output.keys if aside is not None else ()
    if aside is not None:
        seen = aside.select(*(F.col(quote_column(name)).alias(_place(_ASIDE, at)) for at, name in enumerate(names)))
        conditions = [joined[places[_OLD][key]] == F.col(_place(_ASIDE, at)) for at, key in enumerate(keys)]
        joined = joined.join(seen.distinct(), conditions, "left")
    is_aside = F.col(_place(_ASIDE, 0)).isNotNull() if names else F.lit(False)

    is_added, is_missing = F.col("valid_from").isNull(), F.col(places[_NEW][keys[0]]).isNull()
    compared = transition.list_compared(new_types)
    same = (_is_same(places[_OLD][name], places[_NEW][name], old_types[name]) for name in compared)
    is_matched = ~is_added & ~is_missing
    is_changed = is_matched & ~reduce(Column.__and__, same, F.lit(True))
    is_retired = is_missing & ~is_aside & F.lit(transition.retires)
    counted = (is_added, is_changed, is_retired, is_missing & ~is_retired, is_matched)
    counts = [F.count(F.when(each, 1)).alias(name) for each, name in zip(counted, _COUNTS, strict=True)]
    latest = F.max(F.unix_micros("valid_from")).alias("latest")
    sides = (
        F.when(is_added, F.array(F.lit(_NEW)))
        .when(is_changed, F.array(F.lit(_OLD), F.lit(_NEW)))
        .otherwise(F.array(F.lit(_OLD)))
    )
    states = joined.observe(observed, *counts, latest).withColumn(_SIDE, F.explode(sides))
    is_new, ends = F.col(_SIDE) == _NEW, is_changed | is_retired
    types = {**old_types, **new_types}
    columns = [
        F.when(is_new, _get_or_null(places[_NEW].get(name), type_))
        .otherwise(_get_or_null(places[_OLD].get(name), type_))
        .alias(name)
        for name, type_ in types.items()
    ]
    validity = (
        F.when(is_new, _make_time(transition.at)).otherwise(F.col("valid_from")).alias("valid_from"),
        F.when(~is_new & ends, _make_time(transition.at)).alias("valid_to"),
        (is_new | ~ends).alias("is_current"),
    )
    version = states.select(*columns, *validity).unionByName(closed, allowMissingColumns=True)
    return NextVersion(version, run, observed, closed_observed)


def _place(side: int, position: int) -> str:
    """Return the name of a column in the join, where both sides may have one of the same name."""
    return f"_{side}_{position}"


def _get_or_null(place: str | None, type_: str) -> Column:
    return (F.lit(None) if place is None else F.col(place)).cast(quote_fields(type_))


def _is_same(old: str, new: str, type_: str) -> Column:
    """Return whether two values are equal, null and NaN to themselves; maps, which Spark cannot compare, as JSON."""
    if not any(each in type_ for each in _UNCOMPARABLE):
        return F.col(old).eqNullSafe(F.col(new))
    return F.to_json(F.struct(F.col(old).alias("v"))).eqNullSafe(F.to_json(F.struct(F.col(new).alias("v"))))


def _make_time(at: datetime) -> Column:
    return F.timestamp_micros(F.lit((at - _EPOCH) // timedelta(microseconds=1)))
