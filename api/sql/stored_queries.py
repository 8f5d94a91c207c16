"""Queries that run in the background: their states, their rows, and their end."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BeforeValidator

from api.datasets.endpoints import FILE_ANSWERS, send
from api.kit.auth import DatasetReader, KeyRoute
from api.kit.concurrency import DOWNLOADS, QUERIES
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.schemas import send_with_rows
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession
from api.sql.endpoints import BigNumbers
from api.sql.schemas import ColumnRecord, StoredQueryRecord, StoredRows, build_stored_query_record
from core.data.sql.service import DEFAULT_ROWS, MAX_ROWS

router = APIRouter(prefix="/datasets/queries", tags=["datasets"], route_class=KeyRoute)

MAX_PAGE_NUMBER = 10**9
QueryId = Annotated[str, Path(alias="queryId", description="Id of the query.")]


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


ResultFormat = Annotated[
    Literal["json", "csv", "jsonl", "parquet"],
    BeforeValidator(_lower),
    Query(alias="format", description="json: a page. csv, jsonl or parquet: all rows as a file."),
]


@router.get("", summary="List the queries in the background")
def list_stored_queries(
    caller: DatasetReader, services: ServicesOf, session: ReadSession, page: PageOf
) -> list[StoredQueryRecord]:
    """Return the organization's queries that wait, run or have a result, oldest first."""
    return [
        build_stored_query_record(each)
        for each in page.link_rows(services.stored_queries.list(session, caller, page.limit, page.after))
    ]


@router.get("/{queryId}", summary="State of a query in the background", responses=answers(404))
def read_stored_query(
    query_id: QueryId, caller: DatasetReader, services: ServicesOf, session: ReadSession
) -> StoredQueryRecord:
    """Return the state of a query, with its progress where the engine knows it. Results are kept for an hour."""
    return build_stored_query_record(services.stored_queries.get(session, caller, query_id))


@router.get(
    "/{queryId}/results",
    summary="Rows of a query in the background",
    response_model=StoredRows,
    responses={**FILE_ANSWERS, **answers(404, 408, 409, 413, 416)},
)
def read_stored_rows(
    request: Request,
    query_id: QueryId,
    caller: DatasetReader,
    services: ServicesOf,
    page: Annotated[int, Query(ge=0, le=MAX_PAGE_NUMBER, description="Number of the page, from 0.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS, description="Rows of a page.")] = DEFAULT_ROWS,
    format_: ResultFormat = "json",
    big_numbers: BigNumbers = "number",
) -> Response:
    """Return a page of the rows, or all rows as a file. The query's order is kept.

    While the query has not ended this is 409, and so it is for one that failed, with the reason.
    """
    if format_ != "json":
        return _send_file(request, query_id, caller, services, format_)
    with QUERIES.acquire(caller.organization_id):
        query, rows = services.stored_queries.read_page(caller, query_id, page, limit, big_numbers == "string")
    count = query.row_count or 0
    record = StoredRows(
        query_id=query.id,
        page=page,
        pages=-(-count // limit),
        row_count=count,
        columns=[ColumnRecord.model_validate(column) for column in rows.columns],
        rows=[],
    )
    return send_with_rows(record, "rows", rows.json)


def _send_file(
    request: Request, query_id: str, caller: DatasetReader, services: ServicesOf, format: str
) -> StreamingResponse:
    with DOWNLOADS.acquire(caller.organization_id):
        download = services.stored_queries.open_result(caller, query_id, format)
    return send(request, download, format, caller.organization_id)


@router.delete("/{queryId}", summary="Cancel a query in the background", responses=answers(404))
def cancel_stored_query(query_id: QueryId, caller: DatasetReader, services: ServicesOf) -> StoredQueryRecord:
    """Cancel a query that waits or runs; delete the result and the record of one that has ended."""
    return build_stored_query_record(services.stored_queries.cancel(caller, query_id))
