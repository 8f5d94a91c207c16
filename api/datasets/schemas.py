"""Datasets, queries and their rows as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from api.kit.schemas import WHOLE, Body, Record, example
from core.datasets.repository import DatasetWithVersion, get_address
from core.sql.catalog import Table
from core.sql.service import DEFAULT_ROWS, MAX_ROWS, Query


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class Paged(Body):
    limit: Annotated[int, Field(ge=0, le=MAX_ROWS), WHOLE] | None = Field(
        default=None, description=f"Most rows; {DEFAULT_ROWS} when left out."
    )
    offset: Annotated[int, Field(ge=0), WHOLE] | None = Field(
        default=None, description="Rows to skip; a stable order needs ORDER BY."
    )
    format: Annotated[Literal["json"], BeforeValidator(_lower)] | None = Field(
        default=None, description="json, the only format."
    )


class DatasetQuery(Paged):
    """One SELECT, WITH … SELECT, VALUES, SHOW, DESCRIBE or EXPLAIN in Trino's dialect."""

    model_config = example({"sql": "SELECT 1 AS answer", "limit": 10})

    sql: str
    catalog: str | None = None
    schema_: str | None = Field(
        default=None, alias="schema", description="Where unqualified names are looked for first."
    )

    def to_query(self, exact_numbers: bool, dataset_id: str | None = None) -> Query:
        return Query(
            sql=self.sql,
            catalog=self.catalog,
            schema=self.schema_,
            limit=DEFAULT_ROWS if self.limit is None else self.limit,
            offset=self.offset or 0,
            dataset_id=dataset_id,
            exact_numbers=exact_numbers,
        )


class BoundQuery(Paged):
    """A query of one dataset, which it knows as `output`, `output_table`, `dataset` or by its own name."""

    model_config = example({"sql": "SELECT title, price FROM output ORDER BY price", "limit": 10})

    sql: str

    def to_query(self, exact_numbers: bool, dataset_id: str) -> Query:
        limit = DEFAULT_ROWS if self.limit is None else self.limit
        offset = self.offset or 0
        return Query(self.sql, limit=limit, offset=offset, dataset_id=dataset_id, exact_numbers=exact_numbers)


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


class ColumnRecord(Record):
    name: str
    """Name of the column."""
    type: str
    """Trino's SQL type."""


class TableRecord(Record):
    catalog: str
    """The SQL catalog."""
    schema_: str = Field(alias="schema")
    name: str
    """Name of the table in its schema."""
    dataset_id: str


class Columns(Record):
    columns: list[ColumnRecord]
    """The columns in order."""


class DatasetSchema(Record):
    dataset_id: str
    table_name: str
    schema_: Columns = Field(alias="schema")
    row_count: int | None
    size_bytes: int | None


class DatasetRecord(Record):
    id: str
    """Id of the dataset."""
    name: str
    project_id: str | None
    """Id of its project; null for a dataset without one."""
    job_id: str | None
    """Id of the job that writes it; null for other datasets."""
    schema_: str = Field(alias="schema", description="The dataset's schema in SQL.")
    table_name: str
    """The dataset's table in SQL."""
    format: str
    """Format of its files, such as parquet."""
    storage_path: str = Field(description="Address that every `load_*` stage accepts.")
    file_path: str
    """The same as `storagePath`."""
    row_count: int | None
    size_bytes: int | None
    created_at: datetime
    updated_at: datetime


def dataset_record(found: DatasetWithVersion) -> DatasetRecord:
    dataset, version = found.dataset, found.version
    same = ("id", "name", "project_id", "job_id", "format", "created_at", "updated_at")
    return DatasetRecord(
        **{name: getattr(dataset, name) for name in same},
        schema=dataset.schema_slug,
        table_name=dataset.slug,
        storage_path=get_address(dataset),
        file_path=get_address(dataset),
        row_count=version and version.row_count,
        size_bytes=version and version.size_bytes,
    )


def dataset_schema(table: Table) -> DatasetSchema:
    columns = [ColumnRecord(name=column.name, type=column.type) for column in table.get_trino_columns()]
    return DatasetSchema(
        dataset_id=table.dataset_id,
        table_name=table.name,
        schema=Columns(columns=columns),
        row_count=table.row_count,
        size_bytes=table.size_bytes,
    )
