"""Delta and Iceberg tables: one commit writes a version, which readers see whole or not at all.

Each commit names its author, the execution. A driver that was killed between its commit and the service's record of it
leaves a version that was never published; the next writer takes it back before its own commit.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.errors import RunError
from pipelines.language.columns import quote_column
from pipelines.language.formats import Mode
from pipelines.planning.context import Target

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")  # each holds the values of those before it
_EXACT = 4  # of them are integers
MAX_COMMITS = 50  # the newest ones, among which a run looks for its own
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
