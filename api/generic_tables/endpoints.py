"""Generic tables: rows of JSON in tables that users name. These paths have no service segment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from api.generic_tables.schemas import DocumentRecord, RecordList
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.preconditions import TAGGED, IfMatch
from api.kit.schemas import Nothing
from api.kit.sessions import ReadSession, WriteSession
from core.definitions.generic_tables import service as generic_tables
from core.definitions.generic_tables.query import MAX_PAGE, MAX_PAGE_SIZE, PAGE_SIZE, RowQuery
from core.definitions.generic_tables.repository import TABLE_NAME, to_json
from core.infra.preconditions import Versioned
from core.tables import GenericTableRow

router = APIRouter(tags=["cms-tables"], route_class=KeyRoute)

Table = Annotated[
    str,
    Path(
        description="Name of the table; it exists as soon as it has a record.",
        json_schema_extra={"pattern": f"^{TABLE_NAME}$"},
    ),
]
RecordId = Annotated[str, Path(alias="recordId", description="Id of the record.")]
Document = Annotated[
    dict[str, Any],
    Body(description="A JSON object of at most 1 MiB.", examples=[{"title": "Kettle", "price": 19.5}]),
]


def _parse_query(
    request: Request,
    page: Annotated[int, Query(ge=0, le=MAX_PAGE, description="Number of the page, from 0.")] = 0,
    page_size: Annotated[
        int, Query(alias="pageSize", ge=1, le=MAX_PAGE_SIZE, description="Most records of the page.")
    ] = PAGE_SIZE,
    sort: Annotated[
        str | None, Query(description="Fields, separated by commas; `-` before a field reverses its order.")
    ] = None,
) -> RowQuery:
    return RowQuery.from_parameters(page, page_size, request.query_params.multi_items(), sort)


class Json(JSONResponse):
    """A response whose content is JSON text already. As a JSONResponse it has the model's schema in OpenAPI."""

    def render(self, content: str) -> bytes:
        return content.encode()


def _respond(row: Versioned[GenericTableRow]) -> Response:
    return Json(to_json(row.value), headers={"ETag": f'"{row.etag}"'})


def _describe_answer(model: Any, *errors: int) -> Mapping[str, Any]:
    tagged = TAGGED if model is DocumentRecord else {}
    return {"response_class": Json, "response_model": model, "responses": {**tagged, **answers(*errors)}}


@router.get(
    "/{table}",
    summary="List the records of a table",
    description="Any other query parameter filters: `?category=mugs&size.height=12` shows the records whose fields "
    "have these values; a parameter that comes twice means either of its values.",
    **_describe_answer(RecordList, 413),
)
def list_records(
    table: Table, caller: Reader, session: ReadSession, query: Annotated[RowQuery, Depends(_parse_query)]
) -> Response:
    page = generic_tables.list_rows(session, caller, table, query)
    fields = f'"page":{query.page},"pageSize":{query.page_size},"total":{page.total}'
    return Json(f'{{"data":[{",".join(page.rows)}],{fields}}}')


@router.post("/{table}", dependencies=[REPLAYED], summary="Store a record", **_describe_answer(DocumentRecord, 413))
def create_record(table: Table, body: Document, caller: Writer, session: WriteSession) -> Response:
    """Store an object in a table and return it with an id and times. The table exists as soon as it has a record."""
    return _respond(generic_tables.create(session, caller, table, body))


@router.get("/{table}/{recordId}", summary="Read a record", **_describe_answer(DocumentRecord, 404))
def read_record(table: Table, record_id: RecordId, caller: Reader, session: ReadSession) -> Response:
    """Return a record of a table."""
    return _respond(generic_tables.get(session, caller, table, record_id))


@router.put(
    "/{table}/{recordId}",
    summary="Change a record; what the body leaves out stays",
    **_describe_answer(DocumentRecord, 404, 409, 412, 413),
)
def update_record(
    table: Table, record_id: RecordId, body: Document, caller: Writer, session: WriteSession, if_match: IfMatch
) -> Response:
    """Change the fields that the body has and return the record."""
    return _respond(generic_tables.update(session, caller, table, record_id, body, if_match))


@router.delete("/{table}/{recordId}", summary="Delete a record", responses=answers(404, 409, 412))
def delete_record(
    table: Table, record_id: RecordId, caller: Writer, session: WriteSession, if_match: IfMatch
) -> Nothing:
    """Delete a record of a table. This cannot be undone."""
    generic_tables.delete(session, caller, table, record_id, if_match)
    return Nothing()
