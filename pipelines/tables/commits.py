"""Delta and Iceberg tables: one commit writes a version, which readers see whole or not at all.

Each commit names its author, the execution. A driver that was killed between its commit and the service's record of it
leaves a version that was never published; the next writer takes it back before its own commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from pipelines.contract.report import TableVersion
from pipelines.contract.request import Target
from pipelines.errors import RunError
from pipelines.language.formats import Mode
from pipelines.tables.commit_lease import hold_lease
from pipelines.tables.delta import read_delta_log
from pipelines.tables.protocol import CommitConflict

_TRIES = 5
Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry in a table's log."""

    snapshot: str
    author: str | None
    milliseconds: int


def iter_delta_commits(location: str, newest: int) -> Iterator[Commit]:
    """Yield the newest commits of a Delta table up to a version, the last one first."""
    for version, entry in read_delta_log(location, newest):
        yield Commit(str(version), entry.get("userMetadata"), entry["timestamp"])


class Table(Protocol[Rows]):
    """A table in a folder, to which a runner commits rows of its kind.

    Of those that write, each method makes a commit, and raises CommitConflict where another writer's came first.
    """

    location: str

    def sign(self, author: str) -> AbstractContextManager[None]:
        """Let the commits name their author meanwhile."""
        ...

    def exists(self) -> bool: ...

    def iter_commits(self) -> Iterator[Commit]:
        """Yield the newest commits, the last one first."""
        ...

    def restore(self, snapshot: str) -> None:
        """Make an earlier version the current one."""
        ...

    def evolve(self, rows: Rows) -> Rows:
        """Give columns the wider types of rows that follow, changing no value; return the rows with the table's types.

        Raises RunError where no type holds both. Without wider types there is no commit.
        """
        ...

    def create(self, rows: Rows, partition_by: Sequence[str]) -> None:
        """Create the table; it is a conflict where another writer has created it."""
        ...

    def replace(self, rows: Rows, partition_by: Sequence[str]) -> None:
        """Replace the rows and columns of a table."""
        ...

    def append(self, rows: Rows) -> None:
        """Add rows, and the columns that the table lacks."""
        ...

    def read_partition_columns(self) -> tuple[str, ...]:
        """Return the columns by whose values the table's files are split."""
        ...

    def replace_partition(self, rows: Rows, partition: Mapping[str, str]) -> None:
        """Replace the rows with these values in the columns that split the files, and add columns as an append does."""
        ...

    def merge(self, rows: Rows, keys: Sequence[str], within: str | None) -> None:
        """Update the rows with equal keys and add the others, with the columns that the table lacks.

        Rows of other keys are removed whose value of the column `within` the rows have.
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


def write_version(table: Table[Rows], rows: Rows, write: Write, target: Target) -> TableVersion:
    """Commit the rows as the next version of the target's table and return it; raise RunError.

    A commit that conflicts with another writer's is repeated.
    """
    author = f"{write.author}:{uuid4().hex}"
    for attempt in range(1, _TRIES + 1):
        try:
            with hold_lease(table.location), table.sign(author):
                _commit(table, rows, write, target)
                return table.describe(author)
        except CommitConflict as error:
            if attempt == _TRIES:
                sentence = f"other writers changed the {target.format or 'new'} table during each of {_TRIES} commits"
                raise RunError(f"{sentence}; run the job again") from error
            time.sleep(0.2 * attempt)
    raise AssertionError("the loop returns or raises")


def _commit(table: Table[Rows], rows: Rows, write: Write, target: Target) -> None:
    begins = target.snapshot is None and not _has_living_writer(table, write, target)
    if not begins:
        _take_back(table, write, target)
    if not table.exists():
        table.create(rows, write.partition_by)
    elif write.partition and _keeps_partitions(table, write, target):
        table.replace_partition(table.evolve(rows), write.partition)
    elif begins or write.mode not in (Mode.APPEND, Mode.MERGE):
        table.replace(rows, write.partition_by)
    elif write.mode is Mode.MERGE:
        table.merge(table.evolve(rows), write.keys, write.within)
    else:
        table.append(table.evolve(rows))


def _keeps_partitions(table: Table[Any], write: Write, target: Target) -> bool:
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


def _has_living_writer(table: Table[Any], write: Write, target: Target) -> bool:
    """Return whether a table without a published version has commits that may yet be published."""
    return table.exists() and any(not _is_abandoned(each, write, target) for each in table.iter_commits())


def _take_back(table: Table[Any], write: Write, target: Target) -> None:
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


def _list_later(table: Table[Any], target: Target) -> list[Commit]:
    """Return the commits after the published version, the last one first."""
    return [*takewhile(lambda commit: commit.snapshot != target.snapshot, table.iter_commits())]


def _is_abandoned(commit: Commit, write: Write, target: Target) -> bool:
    """Return whether a commit can never be published: its author has ended, or is an earlier attempt of this one."""
    author = (commit.author or "").partition(":")[0]
    if not author:  # of another program, which owns what it does
        return False
    since = write.since if target.listed_at is None else target.listed_at
    return author == write.author or (commit.milliseconds < since and author not in target.writers)
