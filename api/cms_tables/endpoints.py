"""Generic tables: JSON records that a user names the tables of. These paths have no service segment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from api.cms_tables.schemas import RecordList, StoredRecord
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.preconditions import TAGGED, ExpectedOf
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from core.infra.preconditions import compute_etag
from core.records import Query as Listed
from core.records import Records, shown
from core.records.query import MAX_PAGE, MAX_PAGE_SIZE, PAGE_SIZE
from core.records.repository import TABLE_NAME
from core.tables import StoredRecord as Row

router = APIRouter(tags=["cms-tables"], route_class=KeyRoute)

Table = Annotated[
    str,
    Path(
        description="Name of the table; it is there as soon as it has a record.",
        json_schema_extra={"pattern": f"^{TABLE_NAME}$"},
    ),
]
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
) -> Listed:
    return Listed.of(page, page_size, request.query_params.multi_items(), sort)


class Json(JSONResponse):
    """JSON that is text already; one of JSON's own responses, so that the OpenAPI file has the model's schema."""

    def render(self, content: str) -> bytes:
        return content.encode()


def _record(record: Row) -> Response:
    return Json(shown(record), headers={"ETag": f'"{compute_etag(record)}"'})


def _answer(model: Any, *errors: int) -> Mapping[str, Any]:
    tagged = TAGGED if model is StoredRecord else {}
    return {"response_class": Json, "response_model": model, "responses": {**tagged, **answers(*errors)}}


@router.get(
    "/{table}",
    summary="List the records of a table",
    description="Any other query parameter filters: `?category=mugs&size.height=12` shows the records whose fields "
    "have these values; a parameter that comes twice means either of its values.",
    **_answer(RecordList, 413),
)
def list_records(
    table: Table, caller: Reader, services: ServicesOf, query: Annotated[Listed, Depends(_listed)]
) -> Response:
    with services.database.read() as session:
        found = Records(session, caller.organization_id, table).list(query)
    head = f'"page":{query.page},"pageSize":{query.page_size},"total":{found.total}'
    return Json(f'{{"data":[{",".join(found.records)}],{head}}}')


@router.post("/{table}", summary="Store a record", **_answer(StoredRecord, 413))
def create_record(table: Table, body: Document, caller: Writer, services: ServicesOf) -> Response:
    with services.database.write() as session:
        return _record(Records(session, caller.organization_id, table).create(body))


@router.get("/{table}/{recordId}", summary="Read a record", **_answer(StoredRecord, 404))
def read_record(table: Table, record_id: RecordId, caller: Reader, services: ServicesOf) -> Response:
    with services.database.read() as session:
        return _record(Records(session, caller.organization_id, table).get(record_id))


@router.put(
    "/{table}/{recordId}",
    summary="Change a record; what the body leaves out stays",
    **_answer(StoredRecord, 404, 409, 412, 413),
)
def update_record(
    table: Table, record_id: RecordId, body: Document, caller: Writer, services: ServicesOf, expected: ExpectedOf
) -> Response:
    with services.database.write() as session:
        records = Records(session, caller.organization_id, table)
        expected.hold(session, caller, records.get(record_id))
        return _record(records.update(record_id, body))


@router.delete("/{table}/{recordId}", summary="Delete a record", responses=answers(404, 409, 412))
def delete_record(
    table: Table, record_id: RecordId, caller: Writer, services: ServicesOf, expected: ExpectedOf
) -> Nothing:
    with services.database.write() as session:
        records = Records(session, caller.organization_id, table)
        expected.hold(session, caller, records.get(record_id))
        records.delete(record_id)
    return Nothing()
