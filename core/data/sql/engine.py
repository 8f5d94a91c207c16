"""The SQL engine protocol: runs checked statements over an organization's published tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from sqlglot import exp

from core.data.columns import Column
from core.data.sql.catalog import Table
from core.errors import BadInput, SpindleError, TimedOut, TooLarge
from pipelines.errors import SqlError
from pipelines.sql.names import TableName
from pipelines.sql.statement import Select


@contextmanager
def report_refusals() -> Generator[None]:
    """Raise BadInput for a statement that the block refuses."""
    try:
        yield
    except SqlError as error:
        raise BadInput(str(error), code=error.code, path=error.path) from None


class QueryCancelled(SpindleError):
    """Somebody cancelled the query while it ran."""

    status = 409
    default_code = "query-cancelled"


def report_timeout(seconds: float) -> TimedOut:
    return TimedOut(f"The query took longer than {seconds:g} seconds and was stopped; narrow it.")


def report_memory_limit() -> BadInput:
    sentence = "The query needed more memory than it may have and was stopped; narrow it."
    return BadInput(sentence, code="query-memory")


def report_size_limit(max_bytes: int) -> TooLarge:
    return TooLarge(f"The answer is larger than {max_bytes // 2**20} MiB; ask for fewer rows or columns.")


@dataclass(frozen=True, slots=True)
class Relation:
    """A published table as statements of one engine name it.

    `identifiers` are the parts of its name. `files` are the addresses of its data, for engines that read files.
    """

    table: Table
    identifiers: tuple[str, ...]
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineQuery:
    """One page of a query over relations that the engine registered. `sql` is the text that its `translate` returned.

    `exact_numbers` writes all values of bigint and decimal as text.
    """

    id: str
    organization_id: str
    sql: str
    relations: tuple[Relation, ...]
    explain: bool = False
    exact_numbers: bool = False


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Columns under Trino's type names, and the rows as the JSON text of an array of objects."""

    columns: tuple[Column, ...]
    row_count: int
    json: bytes

    @property
    def rows(self) -> list[dict[str, Any]]:
        return json.loads(self.json)


@dataclass(frozen=True, slots=True)
class StoredResult:
    """Columns under Trino's type names, rows and bytes of a result that is a Parquet file of the storage."""

    columns: tuple[Column, ...]
    row_count: int
    size_bytes: int


class SqlEngine(Protocol):
    """One engine, used by many threads at once. Nothing of one organization is visible to another's queries."""

    @property
    def functions(self) -> Set[str]:
        """Lower-case names of the functions that queries may call."""
        ...

    def register(self, organization_id: str, table: Table) -> Relation:
        """Make a published table readable. Raises Conflict for missing files, Unavailable for another's."""
        ...

    def translate(
        self, query: Select, relations: Mapping[TableName, Relation | exp.Select], limit: int | None, offset: int
    ) -> str:
        """Return a page of a checked query in Trino's dialect as this engine runs it; no `limit` means all rows.

        `relations` are what the names in the query mean. The engine may change the tree. Raises BadInput for what the
        engine has no equivalent of.
        """
        ...

    def run(self, query: EngineQuery) -> ResultPage:
        """Run a query and return its rows.

        Raises BadInput for a query that fails or needs too much memory, TimedOut, TooLarge for a page beyond
        32 MiB, QueryCancelled after `cancel`, and Unavailable when the engine does not answer.
        """
        ...

    def store(self, query: EngineQuery, key: str, report_progress: Callable[[float], object]) -> StoredResult:
        """Run a query and store its rows as a Parquet file under this key of the storage.

        It may take longer than `run`, and takes no place of the queries that somebody waits for. `report_progress` is
        called with a share from 0 to 1 where the engine knows it. Raises what `run` raises; then nothing is stored.
        """
        ...

    def cancel(self, query_id: str) -> bool:
        """Stop a running query; False when no query of this id runs."""
        ...

    def check(self) -> None:
        """Raise Unavailable when the engine does not answer."""
        ...

    def close(self) -> None: ...
