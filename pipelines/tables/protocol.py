"""Tables in a folder or a bucket, as they are kept without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, Protocol

from pipelines.contract.report import TablePart
from pipelines.errors import RunError
from pipelines.filesystem import S3Access, find_access, split_address

TARGET_BYTES = 128 * 1024**2  # of merged files


class SparkOnly(StrEnum):
    """Why a table is left to Spark, which otherwise the local runner writes (ADR 69)."""

    FEATURES = "the table has features that only Spark writes"
    PATHS = "the table's log spells paths of files as only Spark does"
    PLACE = "deltalake opens no folder with one of \\[]^| or with % and two digits in its path"
    SPLIT = "the table is split by other than whole values of texts, whole numbers, dates and truth values"
    TYPES = "a column has a type that only Spark stores in tables"
    BOUNDS = "deltalake rounds the bounds of decimals of more than 15 digits, by which readers leave files out"
    MAPS = "deltalake does not read maps of objects to which later files add fields"
    NESTED = "pyiceberg makes empty lists and maps of objects of those that are null"
    SIZE = "the rows of the table that have to be written anew are too many or too large"


def refuse(obstacle: SparkOnly | None) -> None:
    """Raise RunError for an obstacle that was not there when the run looked at the table, before its commit."""
    if obstacle is not None:
        raise RunError(f"another writer has changed the table, and {obstacle}: run the job again")


class CommitConflict(Exception):
    """Another writer has committed the same version first."""


class TableFault(Exception):
    """A table that cannot be read or maintained without Spark, as a sentence; its log may be missing or damaged."""

    def __init__(
        self, sentence: str, code: Literal["missing-files", "unsupported-table", "unsupported-maintenance"]
    ) -> None:
        super().__init__(sentence)
        self.code = code


Values = tuple[tuple[str, str], ...]
"""Columns and their values."""


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """The snapshot that has the same rows in fewer files, and how many files were merged into how many."""

    snapshot: str
    merged: int
    written: int


class StoredTable(Protocol):
    """A table in a folder; every method raises TableFault. Addresses of files are below the table's, or absolute."""

    def list_files(self, snapshot: str, partition: Values = ()) -> tuple[str, ...]:
        """Return the addresses of a snapshot's data files, of a table that is split by columns those with the values of
        one `partition`.
        """
        ...

    def measure_partitions(self, snapshot: str, columns: tuple[str, ...]) -> tuple[TablePart, ...]:
        """Return the values of the columns by which a snapshot is split, as its log has them, in their order."""
        ...

    def merge_files(self, snapshot: str, author: str) -> MergedFiles | None:
        """Merge the small files of the newest snapshot, which must be this one, and return the next snapshot.

        The files keep their order, and so do the rows. None when there is nothing to merge, or another writer was
        first. A commit of another writer in the meantime leaves the merged files as one more commit, which the next
        writer takes back or builds on.
        """
        ...

    def find_unused_files(self, snapshots: Iterable[str], days: int) -> set[str]:
        """Return the addresses of files that for so many days neither the snapshots nor the newest state have had.

        Where a log keeps such snapshots, they expire by a commit. Raises CommitConflict.
        """
        ...


def find_table_access(location: str) -> S3Access | None:
    """Return a run's access to the bucket of a table; None for a folder."""
    address = split_address(location)
    return replace(find_access(address[0]), bucket=address[0]) if address else None


def sum_parts(measures: Iterable[tuple[tuple[str, ...], int, int]]) -> tuple[TablePart, ...]:
    """Return the partitions of files, each given by its values, rows and bytes, in the order of the values."""
    parts: dict[tuple[str, ...], TablePart] = {}
    for values, rows, size in measures:
        before = parts.get(values, TablePart(values, 0, 0))
        parts[values] = TablePart(values, before.rows + rows, before.bytes + size)
    return tuple(parts[values] for values in sorted(parts))


def make_log_fault(name: str) -> TableFault:
    """Return the fault of a log that cannot be read."""
    return TableFault(f"The log of this {name} table is missing or damaged.", "missing-files")


def resolve_file(location: str, file: str) -> str:
    """Return a file's address in the spelling of the table's own."""
    if parts := split_address(file):
        return f"s3://{'/'.join(parts)}"
    if file.startswith("file:"):
        return "/" + file.removeprefix("file:").lstrip("/")
    return file if file.startswith("/") or "://" in file else f"{location}/{file}"
