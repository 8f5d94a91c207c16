"""Results of a run: the files that it wrote, the versions of tables, and the first rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.language.formats import Mode


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
class WrittenFiles:
    """The content of a folder of output files, or the version of a table; columns as names and Spark SQL types.

    `rows` are those that the run wrote; the version has all rows of the table, and `total` are all rows of files into
    which the run has merged its own.
    """

    columns: tuple[tuple[str, str], ...]
    rows: int
    bytes: int
    files: int
    version: TableVersion | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryChanges:
    """Numbers of keys that a run has changed in a history."""

    added: int = 0
    changed: int = 0
    retired: int = 0

    @property
    def any(self) -> bool:
        """Whether there is a difference."""
        return bool(self.added or self.changed or self.retired)


@dataclass(frozen=True, slots=True)
class SavedRows:
    """Rows saved under a path of the project's storage; files are in `folder` of the attempt's folder for saves.

    `merged` is the dataset's version whose rows are in the files too.
    """

    path: str
    mode: Mode
    format: str
    folder: str | None
    written: WrittenFiles
    partition_by: tuple[str, ...] = ()
    merged: str | None = None


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
    changes: HistoryChanges | None = None
    rejected: WrittenFiles | None = None
