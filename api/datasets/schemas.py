"""Datasets, queries and their rows as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from api.kit.schemas import Body, Record
from core.data.columns import convert_type
from core.data.datasets.repository import DatasetWithVersion, get_address
from core.data.datasets.service import is_indexed
from core.data.datasets.versions import Lineage
from core.data.files.messages import TakenFile
from core.data.sql.catalog import Table
from core.data.sql.service import DEFAULT_ROWS, MAX_ROWS, Query
from core.infra.changes import WHOLE, example
from core.tables import Dataset, DatasetVersion, StoredQuery


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
    description: str | None
    dataset_type: str
    """INPUT or OUTPUT."""
    project_id: str | None
    """Id of its project; null for a dataset without one."""
    job_id: str | None
    """Id of the job that writes it; null for other datasets."""
    schema_: str = Field(alias="schema", description="The dataset's schema in SQL.")
    table_name: str
    """The dataset's table in SQL."""
    format: str
    """Format of its files, such as parquet."""
    storage_type: str
    """Kind of the storage: LOCAL or S3."""
    indexed: bool
    """Whether SQL can query it."""
    storage_path: str = Field(description="Address that every `load_*` stage accepts.")
    file_path: str
    """The same as `storagePath`."""
    version: int | None
    """Number of the current version; null before the first."""
    row_count: int | None
    size_bytes: int | None
    retained_versions: int | None
    """How many of the newest versions are kept; null for all."""
    retained_days: int | None
    """For how many days versions are kept; null for ever."""
    created_at: datetime
    updated_at: datetime


class Detected(Record):
    format: str
    """csv, jsonl or parquet."""
    compression: str | None
    """gzip, zip or null."""
    encoding: str | None
    """Encoding of text; null for Parquet."""
    delimiter: str | None
    """Of CSV, else null."""
    header: bool | None
    """Whether CSV begins with a header, else null."""


class UploadedDataset(DatasetRecord):
    columns: list[ColumnRecord]
    """The columns in order, with Trino's SQL types."""
    preview: list[dict[str, Any]]
    """The first rows."""
    detected: Detected
    """How the file was read."""


class VersionRecord(Record):
    id: str
    """Id of the version."""
    version: int
    """Its number, from 1."""
    current: bool
    """Whether it is the one that queries read."""
    format: str
    """Format of its files."""
    row_count: int | None
    size_bytes: int | None
    execution_id: str | None
    """Id of the execution that wrote it; null for an upload."""
    created_at: datetime


class LineageLink(Record):
    job_id: str | None
    """Id of the job; null for an upload."""
    job_name: str | None
    """Name of the job."""
    project_id: str | None
    """Id of the job's project."""
    execution_id: str | None
    """The job's newest execution that did so; null before one."""
    version: int | None
    """Number of the version that it wrote or read; null when it was removed."""
    at: datetime | None
    """When it did."""


class DatasetLineage(Record):
    written_by: list[LineageLink]
    """Jobs that wrote versions, and the newest upload."""
    read_by: list[LineageLink]
    """Jobs that read it, or have it as their input."""


def build_stored_query_record(query: StoredQuery) -> StoredQueryRecord:
    columns = [ColumnRecord(**column) for column in query.columns]
    return StoredQueryRecord.from_row(query, query_id=query.id, status=query.state, columns=columns)


def build_dataset_record(found: DatasetWithVersion) -> DatasetRecord:
    return DatasetRecord(**_get_dataset_fields(found))


def build_uploaded_record(found: DatasetWithVersion, taken: TakenFile) -> UploadedDataset:
    columns = [
        ColumnRecord(name=column["name"], type=convert_type(column["type"], "spark", "trino"))
        for column in taken.columns
    ]
    detected = Detected.model_validate(taken.detected)
    return UploadedDataset(
        **_get_dataset_fields(found), columns=columns, preview=list(taken.preview), detected=detected
    )


def _get_dataset_fields(found: DatasetWithVersion) -> dict[str, Any]:
    dataset, version = found.dataset, found.version
    same = (
        *("id", "name", "description", "dataset_type", "project_id", "job_id", "format"),
        *("retained_versions", "retained_days", "created_at", "updated_at"),
    )
    return {name: getattr(dataset, name) for name in same} | {
        "schema": dataset.schema_slug,
        "table_name": dataset.slug,
        "storage_type": found.storage_type,
        "indexed": is_indexed(version),
        "storage_path": get_address(dataset),
        "file_path": get_address(dataset),
        "version": version and version.number,
        "row_count": version and version.row_count,
        "size_bytes": version and version.size_bytes,
    }


def build_version_record(dataset: Dataset, version: DatasetVersion) -> VersionRecord:
    current = version.id == dataset.current_version_id
    return VersionRecord.from_row(version, version=version.number, current=current)


def build_lineage_record(lineage: Lineage) -> DatasetLineage:
    return DatasetLineage(
        written_by=[LineageLink.model_validate(link) for link in lineage.written_by],
        read_by=[LineageLink.model_validate(link) for link in lineage.read_by],
    )


def build_dataset_schema(table: Table) -> DatasetSchema:
    columns = [ColumnRecord(name=column.name, type=column.type) for column in table.get_trino_columns()]
    return DatasetSchema(
        dataset_id=table.dataset_id,
        table_name=table.name,
        schema=Columns(columns=columns),
        row_count=table.row_count,
        size_bytes=table.size_bytes,
    )
