"""Executions of a job: execute, watch, read the log, cancel."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from api.executions.links import LinksOf
from api.executions.schemas import (
    Attempt,
    AttemptRecord,
    ExecuteRequest,
    ExecutionRecord,
    ExecutionStatus,
    ExecutorIndex,
    Failures,
    Level,
    Logs,
    PodType,
    Queue,
    Submission,
    build_attempt_record,
    build_execution_record,
    build_execution_status,
    build_submission,
)
from api.executions.waiting import WAITED, WaitOf, submit_and_wait
from api.kit.auth import DatasetReader, Executor, KeyRoute, Reader
from api.kit.concurrency import OUTBOUND
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.idempotency import Idempotent
from api.kit.pagination import PageOf
from api.kit.ranges import read_requested_part
from api.kit.schemas import ExecutionId, JobId, ProjectId, QueryTime
from api.kit.services import ServicesOf
from api.kit.sessions import WriteSession
from api.kit.streams import BlockingStream
from core.errors import BadInput
from core.lifecycle.submission.planning import SubmitRequest
from core.lifecycle.submission.submit import RetryRequest, retry, submit
from core.tables.states import State

BINARY = {"type": "string", "format": "binary"}
PAGE_HEADERS = {
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

router = APIRouter(prefix="/jobs/{jobId}", tags=["executions"], route_class=KeyRoute)
organization_router = APIRouter(prefix="/executions", tags=["executions"], route_class=KeyRoute)


@organization_router.get("", summary="List the executions of all projects, newest first")
def list_all_executions(
    caller: Reader,
    services: ServicesOf,
    page: PageOf,
    links: LinksOf,
    states: Annotated[
        list[State] | None, Query(alias="state", description="Only those in one of these states.")
    ] = None,
    since: Annotated[QueryTime | None, Query(description="Only those that were accepted then or later.")] = None,
) -> list[ExecutionRecord]:
    """Return the organization's executions, the newest first.

    With `limit` the answer is a page, and the `Link` header has the next one.
    """
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    executions = services.executions.list_of_organization(
        caller, states or [*State], since, limit=page.limit, before=page.after
    )
    page.link([execution["id"] for execution in executions])
    return [build_execution_record(each, links) for each in executions]


@router.post(
    "/execute",
    summary="Execute a job",
    response_model=Submission,
    responses={**WAITED, **answers(404, 409, 429)},
)
async def execute_job(
    project_id: ProjectId,
    job_id: JobId,
    caller: Executor,
    services: ServicesOf,
    idempotency_key: Idempotent,
    key_ring: KeyRingOf,
    wait: WaitOf,
    links: LinksOf,
    queue: Queue = False,
    body: ExecuteRequest | None = None,
) -> Response | Submission:
    """Accept an execution of the job and return at once.

    With `wait`, the answer follows the execution's end, also after a failure: these fields, those of the execution,
    its first `rows`, and `rowsProblem` where they cannot be read. It is 202 if the execution has not ended in time.

    Follow it by its status or its events. At most ten executions of a project are pending or running, and of an
    organization what its limits say; a further one is answered with 429, or waits with `queue=true`. One beyond the
    limit of a day is 429 in any case. A job that is disabled, or has no agent with a pipeline, is 409, and so is one of
    an organization that stores as much as it may.
    """
    options = body or ExecuteRequest()
    if options.misspelled_fields and services.settings.executions.unknown_parameters == "refuse":
        raise BadInput("The body has a field that is unknown here.", options.misspelled_fields)
    request = SubmitRequest(
        organization_id=caller.organization_id,
        project_id=project_id,
        job_id=job_id,
        key_ring=key_ring,
        credential_ids=options.credential_ids,
        parameters=options.parameters or {},
        arguments=options.arguments or (),
        limit=options.limit,
        publish=options.publish,
        pages_of=options.pages_of,
        rows=options.rows,
        idempotency_key=idempotency_key,
        queue=queue,
        partition=options.partition,
    )
    if wait is not None:
        return await submit_and_wait(services, caller, links, request, wait)
    return build_submission(await run_in_threadpool(submit, services.database, services.settings, request))


@router.get("/executions", summary="List the executions of a job, newest first", responses=answers(404))
def list_executions(
    project_id: ProjectId, job_id: JobId, caller: Reader, services: ServicesOf, page: PageOf, links: LinksOf
) -> list[ExecutionRecord]:
    """Return the job's executions, the newest first.

    With `limit` the answer is a page, and the `Link` header has the next one.
    """
    executions = services.executions.list(caller, project_id, job_id, limit=page.limit, before=page.after)
    page.link([execution["id"] for execution in executions])
    return [build_execution_record(each, links) for each in executions]


@router.get("/executions/{executionId}", summary="Read an execution", responses=answers(404))
def read_execution(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Reader,
    services: ServicesOf,
    links: LinksOf,
) -> ExecutionRecord:
    """Return an execution with its status, progress, attempt and dataset."""
    execution = services.executions.get(caller, project_id, job_id, execution_id)
    return build_execution_record(execution, links)


@router.get("/executions/{executionId}/status", summary="Status and progress of an execution", responses=answers(404))
def read_execution_status(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Reader,
    services: ServicesOf,
    links: LinksOf,
) -> ExecutionStatus:
    """Return the status of an execution with its times, its error and the progress of its stages."""
    return build_execution_status(services.executions.get(caller, project_id, job_id, execution_id), links)


@router.get("/executions/{executionId}/logs", summary="Last lines of an execution's log", responses=answers(404))
def read_execution_logs(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Reader,
    services: ServicesOf,
    pod_type: PodType = "driver",
    executor_index: ExecutorIndex = None,
    tail: Annotated[int, Query(ge=0, le=10_000, description="Maximum number of lines.")] = 100,
    level: Annotated[Level | None, Query(description="Minimum level of a line.")] = None,
    attempt: Attempt = None,
) -> Logs:
    """Return the last lines of the log of an attempt, oldest first.

    Executors on other machines have the ends of their logs under `podType=executor` once the attempt has ended. With a
    local Spark master they run in the driver, and that log is empty.
    """
    lines = services.executions.read_logs(
        caller,
        project_id,
        job_id,
        execution_id,
        tail=tail,
        level=level,
        pod_type=pod_type,
        executor=executor_index,
        attempt=attempt,
    )
    return Logs(logs=lines)


@router.get(
    "/executions/{executionId}/failures", summary="Pages that an execution could not fetch", responses=answers(404)
)
def list_failures(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Reader,
    services: ServicesOf,
    page: PageOf,
    attempt: Attempt = None,
) -> Failures:
    """Return the counts of all failed pages by status and reason, and the first 10,000 of these pages.

    With `limit` the answer is one part, and the `Link` header has the next. Secrets in addresses are masked.
    """
    after = page.number or 0
    found = services.executions.list_failed_pages(
        caller, project_id, job_id, execution_id, attempt=attempt, after=after, limit=page.limit
    )
    page.link(range(after + 1, after + 1 + len(found.pages)))
    return Failures.from_list(found)


@router.get("/executions/{executionId}/attempts", summary="Attempts of an execution", responses=answers(404))
def list_attempts(
    project_id: ProjectId, job_id: JobId, execution_id: ExecutionId, caller: Reader, services: ServicesOf
) -> list[AttemptRecord]:
    """Return the attempts of an execution, the first one first: a retry adds one.

    The log of each is at `…/logs?attempt=`.
    """
    attempts = services.executions.list_attempts(caller, project_id, job_id, execution_id)
    return [build_attempt_record(attempt) for attempt in attempts]


@router.get(
    "/executions/{executionId}/files/{sha256}",
    summary="Read a file that the stage download or the action screenshot kept",
    description="The bytes of the file, or a `Range` of them. Its hash is in the output's column `_sha256`, "
    "or ends the path of a screenshot.",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": {"schema": BINARY}}},
        206: {
            "description": "The bytes of the `Range` that was asked for.",
            "content": {"application/octet-stream": {"schema": BINARY}},
        },
        **answers(404, 416),
    },
)
def read_execution_file(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    request: Request,
    sha256: Annotated[str, Path(description="SHA-256 of the file's content, in lower-case hexadecimal digits.")],
    caller: DatasetReader,
    services: ServicesOf,
) -> StreamingResponse:
    file = services.executions.open_file(caller, project_id, job_id, execution_id, sha256)
    content, status, described = read_requested_part(request, file, sha256)
    headers = {
        "Content-Disposition": f'attachment; filename="{sha256}"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    media_type = "application/octet-stream"
    return BlockingStream(content, status, media_type=media_type, headers=headers | described)


@router.get(
    "/executions/{executionId}/pages",
    summary="Export the pages of an execution",
    description="A WARC archive, compressed, of the pages that the execution used, without cookies and credentials. "
    "Pages that may not be stored, such as those of a session, or that were fetched again since, are not in it.",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": BINARY}}}, **answers(404)},
)
def export_pages(
    project_id: ProjectId, job_id: JobId, execution_id: ExecutionId, caller: DatasetReader, services: ServicesOf
) -> StreamingResponse:
    archive = services.executions.export_pages(caller, project_id, job_id, execution_id)
    headers = {
        "Content-Disposition": f'attachment; filename="{execution_id}.warc.gz"',
        "Cache-Control": "private, no-store",
    }
    return BlockingStream(archive, media_type="application/warc", headers=headers)


@router.get(
    "/executions/{executionId}/spark/{path:path}",
    summary="Spark's own page of an execution",
    description="The address of `sparkUiUrl` where drivers are pods, or the service has a history server. An empty "
    "path is its beginning. Its links lead back here, so a browser needs an extension that sends the key.",
    response_class=Response,
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **answers(404)},
)
def read_spark_page(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    path: Annotated[str, Path(description="A path of the page, such as `stages/`.")],
    request: Request,
    caller: Reader,
    services: ServicesOf,
) -> Response:
    base = request.url_for("read_spark_page", **request.path_params | {"path": ""}).path.rstrip("/")
    with OUTBOUND.acquire(caller.organization_id):
        page = services.spark_pages.fetch(caller, project_id, job_id, execution_id, path, request.url.query, base)
    return Response(page.content, page.status, PAGE_HEADERS, page.media_type or None)


@router.delete("/executions/{executionId}", summary="Cancel an execution", responses=answers(404))
@router.post("/executions/{executionId}/cancel", summary="Cancel an execution", responses=answers(404))
def cancel_execution(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Executor,
    services: ServicesOf,
    links: LinksOf,
) -> ExecutionStatus:
    """End an execution and return its status.

    It is shown as FAILED with a message; one that has ended already stays as it is.
    """
    return build_execution_status(services.executions.cancel(caller, project_id, job_id, execution_id), links)


@router.post(
    "/executions/{executionId}/retry",
    summary="Retry an execution that has failed",
    description="A new attempt of the same execution, with the pipeline and parameters that were frozen for it. "
    "Executions that wait for a slot get one in the order in which they were accepted.",
    responses=answers(404, 409, 429),
)
def retry_execution(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Executor,
    services: ServicesOf,
    session: WriteSession,
    idempotency_key: Idempotent,
    key_ring: KeyRingOf,
    queue: Queue = False,
) -> Submission:
    request = RetryRequest(
        organization_id=caller.organization_id,
        project_id=project_id,
        job_id=job_id,
        execution_id=execution_id,
        key_ring=key_ring,
        idempotency_key=idempotency_key,
        queue=queue,
    )
    return build_submission(retry(session, services.settings, request))
