"""Datasets and SQL over them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from api.datasets.schemas import (
    ColumnRecord,
    DatasetQuery,
    DatasetRecord,
    Rows,
    TableRecord,
    dataset_record,
)
from api.kit.auth import DatasetReader, KeyRoute
from api.kit.concurrency import QUERIES
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.schemas import DatasetId
from api.kit.services import ServicesOf
from core.datasets.repository import Datasets

router = APIRouter(prefix="/datasets", tags=["datasets"], route_class=KeyRoute)
BigNumbers = Annotated[
    Literal["number", "string"],
    Query(alias="bigNumbers", description="string: integers beyond 2^53 and decimals arrive as strings."),
]
Catalog = Annotated[str | None, Query(description="The SQL catalog or one of its other names.")]
Schema = Annotated[str | None, Query(description="A project's schema; `default` holds what is in no project.")]


@router.post(
    "/query", summary="Query the organization's tables with SQL", response_model=Rows, responses=answers(413, 503)
)
def query_datasets(
    body: DatasetQuery, caller: DatasetReader, services: ServicesOf, big_numbers: BigNumbers = "number"
) -> Response:
    with QUERIES.seat(caller.organization_id):
        result = services.queries.run(caller.organization_id, body.query(big_numbers == "string"))
    return Response(b'{"results":' + result.json + b"}", media_type="application/json")


@router.get("/query/tables", summary="List the tables that SQL can name")
def list_tables(
    caller: DatasetReader, services: ServicesOf, catalog: Catalog = None, schema: Schema = None
) -> list[TableRecord]:
    tables = services.queries.tables(caller.organization_id, catalog, schema)
    name = services.settings.sql_catalog
    return [
        TableRecord(catalog=name, schema=table.schema, name=table.name, dataset_id=table.dataset_id) for table in tables
    ]


@router.get("/query/columns", summary="List the columns of a table")
def list_columns(
    table: Annotated[str, Query(description="Name of the table.")],
    caller: DatasetReader,
    services: ServicesOf,
    catalog: Catalog = None,
    schema: Schema = None,
) -> list[ColumnRecord]:
    columns = services.queries.columns(caller.organization_id, table, catalog, schema)
    return [ColumnRecord(name=column.name, type=column.type) for column in columns]


@router.get("", summary="List the datasets")
def list_datasets(caller: DatasetReader, services: ServicesOf, page: PageOf) -> list[DatasetRecord]:
    with services.database.read() as session:
        repository = Datasets(session, caller.organization_id)
        datasets = page.linked(repository.list(limit=page.limit, after=page.after))
    published = {table.dataset_id: table for table in services.queries.tables(caller.organization_id)}
    return [dataset_record(dataset, published.get(dataset.id)) for dataset in datasets]


@router.get("/{datasetId}", summary="Read a dataset", responses=answers(404))
def read_dataset(dataset_id: DatasetId, caller: DatasetReader, services: ServicesOf) -> DatasetRecord:
    with services.database.read() as session:
        repository = Datasets(session, caller.organization_id)
        dataset = repository.get(dataset_id)
        return dataset_record(dataset, repository.current_version(dataset))
