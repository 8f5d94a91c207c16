"""Live updates about an execution, or about all executions of a project, as Server-Sent Events."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from api.events.requests import STREAM, LastEventId, make_key_check, parse_event_id
from api.events.stream import OF_KEYS, OF_ORGANIZATIONS, EventStream
from api.kit.auth import KeyRoute, Reader
from api.kit.errors import answers
from api.kit.schemas import ExecutionId, JobId, ProjectId
from api.kit.services import ServicesOf
from core.lifecycle.events import service

router = APIRouter(tags=["events"], route_class=KeyRoute)
HOW = (
    "Server-Sent Events. `event: state` and `event: progress` carry an execution as JSON, and in a project's stream "
    "`event: stale` a job whose table is not fresh any more; a comment comes every 15 s "
    "of silence. After a reconnect with `Last-Event-ID` the stream continues after that event; events are stored for "
    "a week. The key belongs in its header as everywhere, never in the address: in a browser, read the stream with "
    "`fetch`, since `EventSource` sends no headers. Connecting counts as one request. A key may have "
    f"{OF_KEYS.per_caller} streams open at each worker of the API and an organization {OF_ORGANIZATIONS.per_caller}; "
    "a stream that is not read for 15 s, or whose key was revoked, is closed."
)


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
    ids = (project_id, job_id, execution_id)
    read = partial(service.list_of_execution, services.database, caller, *ids)
    after = parse_event_id(last_event_id)
    first = read(after)
    if first.ended and not first.events:
        return Response(status_code=204)
    return EventStream(caller, ids, read, make_key_check(services, request), after)


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
    read = partial(service.list_of_project, services.database, caller, project_id)
    after = parse_event_id(last_event_id)
    last = service.get_last_id(services.database, caller, project_id)
    check = make_key_check(services, request)
    return EventStream(caller, project_id, read, check, last if after is None else after)
