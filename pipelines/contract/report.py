"""The report of a run: the files that it wrote, the versions of tables, measurements, and the first rows.

The runners return these classes, the driver sends them as JSON, and the service reads them from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer

from pipelines.contract.progress import Progress, ReportPart
from pipelines.contract.request import Figures, Int64
from pipelines.language.formats import Mode

Value = TypeVar("Value")
Part = Annotated[Value | None, Field(exclude_if=lambda value: value is None)]
"""A part of a report that is left out where there is none."""


def describe_columns(columns: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return columns as they are in JSON: objects with a name and a type."""
    return [{"name": name, "type": type_} for name, type_ in columns]


def _read_columns(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    columns = (cast(dict[str, Any], each) if isinstance(each, dict) else {} for each in cast(list[Any], value))
    return tuple((each.get("name"), each.get("type")) for each in columns)


ColumnTypes = Annotated[tuple[tuple[str, str], ...], BeforeValidator(_read_columns), PlainSerializer(describe_columns)]
"""Columns as names and Spark SQL types."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows and bytes of a table that have these values in the columns of its partitions."""

    values: tuple[str, ...]
    rows: Int64
    bytes: Int64


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table after a commit: all its rows and bytes.

    `written` rows are those of the commit, where its log has them. A run for a partition reports all `parts`.
    """

    snapshot: Annotated[str, Field(min_length=1, max_length=200)]
    rows: Int64
    bytes: Int64
    columns: ColumnTypes = ()
    partition_by: tuple[str, ...] = ()
    written: int | None = None
    parts: Annotated[tuple[TablePart, ...], Field(exclude_if=lambda value: not value)] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """How an output or a save is kept in the storage: the version of a table, or the columns that files are split by.

    The version has all rows of the table, and `total_rows` are all rows of files into which the run has merged its own.
    """

    partition_by: Annotated[tuple[str, ...], Field(exclude_if=lambda value: not value)] = ()
    table: Part[TableVersion] = None
    total_rows: Part[Int64] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles(Layout):
    """The content of a folder of files, or the version of a table; `rows` are those that the run wrote."""

    columns: ColumnTypes
    rows: Int64
    bytes: Int64
    files: int = 1

    @classmethod
    def from_version(cls, version: TableVersion, rows: int) -> Self:
        """Return the rows that a run has written as a version of a table."""
        columns, partitions = version.columns, version.partition_by
        return cls(columns=columns, rows=rows, bytes=version.bytes, table=version, partition_by=partitions)


@dataclass(frozen=True, slots=True)
class MergedVersion:
    """The version of a dataset whose rows are in the merged files; None for the first one."""

    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRows(WrittenFiles):
    """Rows saved under a path of the pipeline; files are in `folder` of the attempt's folder for saves.

    `merged` is the version whose rows are in the files too.
    """

    path: str
    mode: Mode
    format: Annotated[str, Field(pattern="^(parquet|csv|json|avro|delta|iceberg)$")]
    folder: Annotated[str, Field(pattern=r"^[0-9]{1,6}$")] | None
    merged: Part[MergedVersion] = None


@dataclass(frozen=True, slots=True)
class Changes:
    """Numbers of keys that an execution has changed in a history."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True)
    added: Int64 = 0
    """Keys that had no current row."""
    changed: Int64 = 0
    """Keys with another row than before."""
    retired: Int64 = 0
    """Keys without a row in this execution."""

    @property
    def any(self) -> bool:
        """Whether there is a difference."""
        return bool(self.added or self.changed or self.retired)


@dataclass(frozen=True, slots=True)
class PublishedPages:
    """The folder of the known pages that an incremental run began with, and whether it has written new ones."""

    earlier: str | None = None
    written: bool = False


@dataclass(frozen=True, slots=True)
class RunResult:
    """The files that a run wrote: its output and the saves of its stages; `preview` has the output's first rows.

    There is no output where its mode keeps earlier rows instead, and where a history has no `changes`. `rejected` are
    the rows that checks have set aside; None where no check does that.
    """

    output: WrittenFiles | None
    saved: tuple[SavedRows, ...]
    preview: list[dict[str, Any]]
    seconds: float
    changes: Changes | None = None
    rejected: WrittenFiles | None = None


class RunReport(ReportPart):
    """What a run has done, in the field `additionalMetrics` of the completion payload.

    `merged` is the version that the output's files replace, `rejected` are the rows that checks have set aside, and
    `pages` the counts of an incremental run. `resumed_after` is the step whose rows an earlier attempt has computed.
    """

    attempt: Part[int] = None
    error_code: Part[str] = None
    engine: Part[str] = None
    mode: Part[Mode] = None
    output_name: str | None = None
    saves: tuple[SavedRows, ...] = ()
    output: Part[Layout] = None
    merged: Part[MergedVersion] = None
    changes: Part[Changes] = None
    rejected: Part[WrittenFiles] = None
    figures: Part[Figures] = None
    pages: Part[dict[str, int]] = None
    known_pages: Part[PublishedPages] = None
    progress: Part[Progress] = None
    resumed_after: Part[str] = None
