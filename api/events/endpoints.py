"""Live updates about an execution, or about all executions of a project, as Server-Sent Events."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from api.events.stream import OF_KEYS, OF_ORGANIZATIONS, EventStream
from api.kit.auth import KeyRoute, Reader, extract_key
from api.kit.errors import answers
from api.kit.schemas import ExecutionId, JobId, ProjectId
from api.kit.services import Services, ServicesOf
from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, Detail

router = APIRouter(tags=["events"], route_class=KeyRoute)
MAX_DIGITS = 18
HOW = (
    "Server-Sent Events. `event: state` and `event: progress` carry an execution as JSON; a comment comes every 15 s "
    "of silence. After a reconnect with `Last-Event-ID` the stream continues after that event; events are stored for "
    "a week. The key belongs in its header as everywhere, never in the address: in a browser, read the stream with "
    "`fetch`, since `EventSource` sends no headers. Connecting counts as one request. A key may have "
    f"{OF_KEYS.per_caller} streams open at each worker of the API and an organization {OF_ORGANIZATIONS.per_caller}; "
    "a stream that is not read for 15 s, or whose key was revoked, is closed."
)
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="Id of the last event that arrived; the stream continues there."),
]
STREAM = {"description": "The stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}


@router.get(
    "/jobs/{jobId}/executions/{executionId}/events",
    summary="Follow an execution",
    description=f"Begins with the execution's first event and ends with the execution. {HOW} When the execution has "
    "ended and no event follows `Last-Event-ID`, the answer is 204.",
    response_class=Response,
    responses={200: STREAM, 204: {"description": "The execution has ended and no event follows."}, **answers(404)},
)
def follow_execution(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Reader,
    services: ServicesOf,
    request: Request,
    last_event_id: LastEventId = None,
) -> Response:
    read = partial(services.events.list_of_execution, caller, project_id, job_id, execution_id)
    after = _parse_id(last_event_id)
    first = read(after)
    if first.ended and not first.events:
        return Response(status_code=204)
    return EventStream(caller, read, _make_key_check(services, request), after)


@router.get(
    "/events",
    summary="Follow all executions of a project",
    description="Begins with an `id` and the next event, so a reconnect before the first event misses none either. "
    f"To get earlier events too, open the stream first and read the executions then. {HOW}",
    response_class=Response,
    responses={200: STREAM, **answers(404)},
)
def follow_project(
    project_id: ProjectId,
    caller: Reader,
    services: ServicesOf,
    request: Request,
    last_event_id: LastEventId = None,
) -> Response:
    read = partial(services.events.list_of_project, caller, project_id)
    after = _parse_id(last_event_id)
    last = services.events.get_last_id(caller, project_id)
    return EventStream(caller, read, _make_key_check(services, request), last if after is None else after)


def _make_key_check(services: Services, request: Request) -> partial[Identity]:
    return partial(services.keys.authenticate_uncached, extract_key(request.headers) or "")


def _parse_id(last_event_id: str | None) -> int | None:
    if last_event_id is None:
        return None
    if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) <= MAX_DIGITS):
        raise BadInput("'Last-Event-ID' is not an id of this stream.", [Detail("Last-Event-ID", "is not a number")])
    return int(last_event_id)
