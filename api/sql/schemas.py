"""Statements and their rows as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from api.datasets.schemas import ColumnRecord, DescribedColumnRecord
from api.kit.schemas import Body, Record
from core.data.sql.catalog import Table
from core.data.sql.service import DEFAULT_ROWS, MAX_ROWS, Query
from core.infra.changes import WHOLE, example
from core.tables import StoredQuery


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _to_text(value: object) -> object:
    """A version's number may be sent as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


MAX_BIGINT = 2**63 - 1


VERSION = "Number or id of the dataset's version; the current one when left out."


class Paged(Body):
    limit: Annotated[int, Field(ge=0, le=MAX_BIGINT), WHOLE] | None = Field(
        default=None,
        description=f"Most rows, at most {MAX_ROWS}; {DEFAULT_ROWS} when left out, with `async` all.",
    )
    offset: Annotated[int, Field(ge=0), WHOLE] | None = Field(
        default=None, description="Rows to skip; a stable order needs ORDER BY."
    )
    format: Annotated[Literal["json"], BeforeValidator(_lower)] | None = Field(
        default=None, description="json, the only format."
    )

    def get_limit(self, whole: bool) -> int | None:
        """Return the most rows of an answer; None for all rows of a query in the background."""
        return self.limit if self.limit is not None or whole else DEFAULT_ROWS


class DatasetQuery(Paged):
    """One SELECT, WITH … SELECT, VALUES, SHOW, DESCRIBE or EXPLAIN in Trino's dialect."""

    model_config = example({"sql": "SELECT 1 AS answer", "limit": 10})

    sql: str
    catalog: str | None = None
    schema_: str | None = Field(
        default=None, alias="schema", description="Where unqualified names are looked for first."
    )
    dataset_id: str | None = None
    """A dataset that the query may call `dataset` or `output`."""
    version: Annotated[str, BeforeValidator(_to_text)] | None = Field(default=None, description=VERSION)

    def to_query(self, exact_numbers: bool, *, whole: bool = False) -> Query:
        return Query(
            sql=self.sql,
            catalog=self.catalog,
            schema=self.schema_,
            limit=self.get_limit(whole),
            offset=self.offset or 0,
            dataset_id=self.dataset_id or None,
            version=self.version or None,
            exact_numbers=exact_numbers,
        )


class BoundQuery(Paged):
    """A query of one dataset, which it knows as `output`, `output_table`, `dataset` or by its own name."""

    model_config = example({"sql": "SELECT title, price FROM output ORDER BY price", "limit": 10})

    sql: str
    version: Annotated[str, BeforeValidator(_to_text)] | None = Field(default=None, description=VERSION)

    def to_query(self, exact_numbers: bool, dataset_id: str, *, whole: bool = False) -> Query:
        return Query(
            self.sql,
            limit=self.get_limit(whole),
            offset=self.offset or 0,
            dataset_id=dataset_id,
            version=self.version or None,
            exact_numbers=exact_numbers,
        )


class Rows(Record):
    results: list[dict[str, Any]]
    """The rows, each an object by column name."""


class BoundRows(Record):
    query_id: str
    """Id of the query."""
    status: Literal["COMPLETED"] = "COMPLETED"
    """COMPLETED."""
    rows: list[dict[str, Any]]
    """The rows, each an object by column name."""
    row_count: int
    """Number of the rows in this answer."""
    execution_time_ms: int
    """Time that the query took, in milliseconds."""


class StoredQueryRecord(Record):
    query_id: str
    """Id of the query."""
    status: Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
    """PENDING, RUNNING, COMPLETED, FAILED or CANCELLED."""
    sql: str
    """The statement as it was sent."""
    progress: float | None
    """Share that is done, from 0 to 1; null where it is not known."""
    columns: list[ColumnRecord]
    """Columns of the result with their SQL types; empty before it is there."""
    row_count: int | None
    size_bytes: int | None
    error: str | None
    """Why it failed; null otherwise."""
    error_code: str | None
    """The error's code, as in `details` of an error."""
    created_at: datetime
    started_at: datetime | None
    """When it began to run; null while it waits."""
    completed_at: datetime | None
    expires_at: datetime | None
    """When the result and this record are deleted; null while it runs."""


class StoredRows(Record):
    query_id: str
    """Id of the query."""
    status: Literal["COMPLETED"] = "COMPLETED"
    """COMPLETED."""
    page: int
    """Number of the page, from 0."""
    pages: int
    """Number of the pages of this size."""
    row_count: int
    """Number of the rows of the whole result."""
    columns: list[ColumnRecord]
    """The columns in order."""
    rows: list[dict[str, Any]]
    """The rows of the page, each an object by column name."""


class TableRecord(Record):
    catalog: str
    """The SQL catalog."""
    schema_: str = Field(alias="schema")
    name: str
    """Name of the table in its schema."""
    dataset_id: str


class Columns(Record):
    columns: list[DescribedColumnRecord]
    """The columns in order."""


class DatasetSchema(Record):
    dataset_id: str
    table_name: str
    schema_: Columns = Field(alias="schema")
    row_count: int | None
    size_bytes: int | None


def build_stored_query_record(query: StoredQuery) -> StoredQueryRecord:
    columns = [ColumnRecord(**column) for column in query.columns]
    return StoredQueryRecord.from_row(query, query_id=query.id, status=query.state, columns=columns)


def build_dataset_schema(table: Table) -> DatasetSchema:
    columns = [DescribedColumnRecord.model_validate(column) for column in table.get_trino_columns()]
    return DatasetSchema(
        dataset_id=table.dataset_id,
        table_name=table.name,
        schema=Columns(columns=columns),
        row_count=table.row_count,
        size_bytes=table.size_bytes,
    )
