"""Generic tables: JSON records that a user names the tables of. These paths have no service segment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response

from api.cms_tables.schemas import RecordList, StoredRecord
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.schemas import Nothing
from api.kit.service import ServiceOf
from core import records
from core.records import Records
from core.records.query import MAX_PAGE, MAX_PAGE_SIZE, PAGE_SIZE

router = APIRouter(tags=["cms-tables"], route_class=KeyRoute)

Table = Annotated[str, Path(description="Name of the table; it is there as soon as it has a record.")]
RecordId = Annotated[str, Path(alias="recordId", description="Id of the record.")]
Document = Annotated[
    dict[str, Any],
    Body(description="A JSON object of at most 1 MiB.", examples=[{"title": "Kettle", "price": 19.5}]),
]


def _listed(
    request: Request,
    page: Annotated[int, Query(ge=0, le=MAX_PAGE, description="Number of the page, from 0.")] = 0,
    page_size: Annotated[int, Query(alias="pageSize", ge=1, le=MAX_PAGE_SIZE)] = PAGE_SIZE,
    sort: Annotated[
        str | None, Query(description="Fields, separated by commas; `-` before a field turns its order.")
    ] = None,
) -> records.Query:
    return records.Query.of(page, page_size, request.query_params.multi_items(), sort)


class Json(Response):
    """JSON that is text already."""

    media_type = "application/json"


def _answer(model: Any) -> Mapping[str, Any]:
    return {"response_class": Json, "response_model": model}


@router.get(
    "/{table}",
    summary="List the records of a table",
    description="Any other query parameter filters: `?category=mugs&size.height=12` shows the records whose fields "
    "have these values; a parameter that comes twice means either of its values.",
    responses=answers(413),
    **_answer(RecordList),
)
def list_records(
    table: Table, caller: Reader, service: ServiceOf, query: Annotated[records.Query, Depends(_listed)]
) -> Response:
    with service.database.read() as session:
        found = Records(session, caller.organization_id, table).list(query)
    head = f'"page":{query.page},"pageSize":{query.page_size},"total":{found.total}'
    return Json(f'{{"data":[{",".join(found.records)}],{head}}}')


@router.post("/{table}", summary="Store a record", responses=answers(413), **_answer(StoredRecord))
def create_record(table: Table, body: Document, caller: Writer, service: ServiceOf) -> Response:
    with service.database.write() as session:
        return Json(Records(session, caller.organization_id, table).create(body))


@router.get("/{table}/{recordId}", summary="Read a record", responses=answers(404), **_answer(StoredRecord))
def read_record(table: Table, record_id: RecordId, caller: Reader, service: ServiceOf) -> Response:
    with service.database.read() as session:
        return Json(Records(session, caller.organization_id, table).get(record_id))


@router.put(
    "/{table}/{recordId}",
    summary="Change a record; what the body leaves out stays",
    responses=answers(404, 413),
    **_answer(StoredRecord),
)
def update_record(table: Table, record_id: RecordId, body: Document, caller: Writer, service: ServiceOf) -> Response:
    with service.database.write() as session:
        return Json(Records(session, caller.organization_id, table).update(record_id, body))


@router.delete("/{table}/{recordId}", summary="Delete a record", responses=answers(404))
def delete_record(table: Table, record_id: RecordId, caller: Writer, service: ServiceOf) -> Nothing:
    with service.database.write() as session:
        Records(session, caller.organization_id, table).delete(record_id)
    return Nothing()
