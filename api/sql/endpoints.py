"""SQL over datasets: all of an organization, one of a job, the output of a task."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from api.kit.auth import DatasetReader, KeyRoute
from api.kit.concurrency import QUERIES
from api.kit.errors import answers
from api.kit.idempotency import Idempotent
from api.kit.schemas import DatasetId, JobId, ProjectId, TaskId, send_with_rows
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession
from api.sql.schemas import (
    BoundQuery,
    BoundRows,
    DatasetQuery,
    DatasetSchema,
    DescribedColumnRecord,
    Rows,
    StoredQueryRecord,
    TableRecord,
    build_dataset_schema,
    build_stored_query_record,
)
from core.tables import StoredQuery

router = APIRouter(prefix="/datasets", tags=["datasets"], route_class=KeyRoute)
task_router = APIRouter(prefix="/datasets/query/task/{taskId}", tags=["datasets"], route_class=KeyRoute)
job_router = APIRouter(prefix="/jobs/{jobId}/datasets/{datasetId}", tags=["datasets"], route_class=KeyRoute)

BigNumbers = Annotated[
    Literal["number", "string"],
    Query(alias="bigNumbers", description="string: all values of bigint and decimal columns are text."),
]
Async = Annotated[
    bool,
    Query(alias="async", description="true: run it in the background; the answer has its `queryId` (202)."),
]
Catalog = Annotated[str | None, Query(description="The SQL catalog or one of its other names.")]
Schema = Annotated[str | None, Query(description="A project's schema; `default` has the datasets without a project.")]
ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"model": StoredQueryRecord, "description": "With `async`: the query in the background."}
}


@router.post(
    "/query",
    summary="Query the organization's tables with SQL",
    response_model=Rows,
    responses={**ACCEPTED, **answers(404, 408, 413)},
)
def query_datasets(
    body: DatasetQuery,
    caller: DatasetReader,
    services: ServicesOf,
    key: Idempotent,
    big_numbers: BigNumbers = "number",
    async_: Async = False,
) -> Response:
    """Run one statement in Trino's SQL on the organization's tables and return its rows.

    SELECT, WITH, VALUES, SHOW, DESCRIBE and EXPLAIN are allowed; a statement that writes is 400. An unqualified table
    is looked for in `schema` first. With `async` it runs in the background and may take longer: its state, its rows
    and its end are at `/datasets/queries/{queryId}`. `Idempotency-Key` counts with `async` only.
    """
    if async_:
        return _accept(services.stored_queries.submit(caller, body.to_query(True, whole=True), key))
    with QUERIES.acquire(caller.organization_id):
        result = services.queries.run(caller, body.to_query(big_numbers == "string"))
    return send_with_rows(Rows(results=[]), "results", result.page.json)


@router.get("/query/tables", summary="List the tables that SQL can name")
def list_tables(
    caller: DatasetReader, services: ServicesOf, session: ReadSession, catalog: Catalog = None, schema: Schema = None
) -> list[TableRecord]:
    """Return the tables that SQL can name: the published outputs of jobs, and the organization's other datasets."""
    name = services.settings.sql.catalog
    return [
        TableRecord(catalog=name, schema=table.schema, name=table.name, dataset_id=table.dataset_id)
        for table in services.queries.list_tables(session, caller, catalog, schema)
    ]


@router.get("/query/columns", summary="List the columns of a table", responses=answers(404))
def list_columns(
    table: Annotated[str, Query(description="Name of the table.")],
    caller: DatasetReader,
    services: ServicesOf,
    session: ReadSession,
    catalog: Catalog = None,
    schema: Schema = None,
) -> list[DescribedColumnRecord]:
    """Return the columns of a table with their SQL types and descriptions. An unknown table is 404."""
    columns = services.queries.list_columns(session, caller, table, catalog, schema)
    return [DescribedColumnRecord.model_validate(column) for column in columns]


@job_router.post(
    "/query",
    summary="Query one dataset with SQL",
    response_model=BoundRows,
    responses={**ACCEPTED, **answers(404, 408, 413)},
)
def query_dataset(
    project_id: ProjectId,
    job_id: JobId,
    dataset_id: DatasetId,
    body: BoundQuery,
    caller: DatasetReader,
    services: ServicesOf,
    key: Idempotent,
    big_numbers: BigNumbers = "number",
    async_: Async = False,
) -> Response:
    """Run one statement in Trino's SQL on the current version of the dataset, which it may call `output`,
    `output_table`, `dataset` or by its own name."""
    if async_:
        query = body.to_query(True, dataset_id, whole=True)
        return _accept(services.stored_queries.submit_on_job(caller, project_id, job_id, query, key))
    with QUERIES.acquire(caller.organization_id):
        query = body.to_query(big_numbers == "string", dataset_id)
        result = services.queries.run_on_job(caller, project_id, job_id, query)
    record = BoundRows(
        query_id=result.query_id,
        rows=[],
        row_count=result.page.row_count,
        execution_time_ms=result.milliseconds,
    )
    return send_with_rows(record, "rows", result.page.json)


@job_router.get("/schema", summary="Columns and size of one dataset", responses=answers(404))
def read_dataset_schema(
    project_id: ProjectId,
    job_id: JobId,
    dataset_id: DatasetId,
    caller: DatasetReader,
    services: ServicesOf,
    session: ReadSession,
) -> DatasetSchema:
    """Return the columns of the dataset's current version with their SQL types, and its size."""
    return build_dataset_schema(services.queries.get_table_of_job(session, caller, project_id, job_id, dataset_id))


@task_router.post(
    "",
    summary="Query the output of a task with SQL",
    response_model=Rows,
    responses={**ACCEPTED, **answers(404, 408, 413)},
)
def query_task(
    task_id: TaskId,
    body: DatasetQuery,
    caller: DatasetReader,
    services: ServicesOf,
    key: Idempotent,
    big_numbers: BigNumbers = "number",
    async_: Async = False,
) -> Response:
    """Run one statement in Trino's SQL on the rows that the task's execution published, which it may call `output`,
    `output_table`, `dataset` or by the table's name."""
    if async_:
        query = body.to_query(True, whole=True)
        return _accept(services.stored_queries.submit_on_task(caller, task_id, query, key))
    with QUERIES.acquire(caller.organization_id):
        result = services.queries.run_on_task(caller, task_id, body.to_query(big_numbers == "string"))
    return send_with_rows(Rows(results=[]), "results", result.page.json)


@task_router.get("/info", summary="The dataset that a task published", responses=answers(404))
def read_task_output(
    task_id: TaskId, caller: DatasetReader, services: ServicesOf, session: ReadSession
) -> DatasetSchema:
    """Return the columns and the size of the dataset that the task's execution published; 404 before it has."""
    return build_dataset_schema(services.queries.get_table_of_task(session, caller, task_id))


def _accept(query: StoredQuery) -> Response:
    text = build_stored_query_record(query).model_dump_json(by_alias=True)
    return Response(text, status_code=202, media_type="application/json")
