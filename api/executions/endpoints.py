"""Executions of a job: execute, watch, read the log, cancel."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from api.executions.schemas import (
    ExecuteRequest,
    ExecutionRecord,
    ExecutionStatus,
    Level,
    Logs,
    PodType,
    Queue,
    Submission,
    execution_record,
    execution_status,
)
from api.kit.auth import Executor, KeyRoute, Reader
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.idempotency import Idempotent
from api.kit.pagination import PageOf
from api.kit.schemas import ExecutionId, JobId, ProjectId
from api.kit.services import ServicesOf
from core.executions.complete import cancel
from core.executions.queries import Executions
from core.executions.retry import retry
from core.executions.states import State
from core.executions.submit import submit
from core.infra.logs import execution_logs
from core.tables import Execution

router = APIRouter(prefix="/jobs/{jobId}", tags=["executions"], route_class=KeyRoute)
CLUSTER = "local"


def _submission(execution: Execution) -> Submission:
    waits = execution.state == State.QUEUED
    message = "The execution waits for a slot of its project." if waits else "The execution was accepted."
    return Submission(execution_id=execution.id, status="SUBMITTED", message=message, cluster_id=CLUSTER, success=True)


@router.post("/execute", summary="Execute a job", responses=answers(404, 409, 429))
def execute_job(
    project_id: ProjectId,
    job_id: JobId,
    caller: Executor,
    services: ServicesOf,
    idempotency_key: Idempotent,
    key_ring: KeyRingOf,
    queue: Queue = False,
    body: ExecuteRequest | None = None,
) -> Submission:
    request = body or ExecuteRequest()
    execution = submit(
        services.database,
        caller.organization_id,
        project_id,
        job_id,
        key_ring=key_ring,
        credential_ids=request.credential_ids,
        parameters=request.parameters,
        arguments=request.arguments or (),
        limit=request.limit,
        idempotency_key=idempotency_key,
        queue=queue,
    )
    return _submission(execution)


@router.get("/executions", summary="List the executions of a job, newest first", responses=answers(404))
def list_executions(
    project_id: ProjectId, job_id: JobId, caller: Reader, services: ServicesOf, page: PageOf
) -> list[ExecutionRecord]:
    with services.database.read() as session:
        repository = Executions(session, caller.organization_id)
        executions = repository.records(project_id, job_id, limit=page.limit, before=page.after)
        page.link([execution["id"] for execution in executions])
        return [execution_record(execution) for execution in executions]


@router.get("/executions/{executionId}", summary="Read an execution", responses=answers(404))
def read_execution(
    project_id: ProjectId, job_id: JobId, execution_id: ExecutionId, caller: Reader, services: ServicesOf
) -> ExecutionRecord:
    with services.database.read() as session:
        executions = Executions(session, caller.organization_id)
        return execution_record(executions.record(executions.get(project_id, job_id, execution_id)))


@router.get("/executions/{executionId}/status", summary="Status and progress of an execution", responses=answers(404))
def read_execution_status(
    project_id: ProjectId, job_id: JobId, execution_id: ExecutionId, caller: Reader, services: ServicesOf
) -> ExecutionStatus:
    with services.database.read() as session:
        executions = Executions(session, caller.organization_id)
        return execution_status(executions.record(executions.get(project_id, job_id, execution_id)))


@router.get("/executions/{executionId}/logs", summary="Last lines of an execution's log", responses=answers(404))
def read_execution_logs(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Reader,
    services: ServicesOf,
    pod_type: Annotated[PodType, Query(alias="podType")] = "driver",
    tail: Annotated[int, Query(ge=0, le=10_000, description="Most lines of the answer.")] = 100,
    level: Annotated[Level | None, Query(description="Least level of a line.")] = None,
) -> Logs:
    with services.database.read() as session:
        execution = Executions(session, caller.organization_id).get(project_id, job_id, execution_id)
    return Logs(logs=execution_logs(services.storage, execution, tail=tail, level=level, pod_type=pod_type))


@router.delete("/executions/{executionId}", summary="Cancel an execution", responses=answers(404))
@router.post("/executions/{executionId}/cancel", summary="Cancel an execution", responses=answers(404))
def cancel_execution(
    project_id: ProjectId, job_id: JobId, execution_id: ExecutionId, caller: Executor, services: ServicesOf
) -> ExecutionStatus:
    with services.database.read() as session:
        Executions(session, caller.organization_id).get(project_id, job_id, execution_id)
    cancel(services.database, caller.organization_id, execution_id, "The execution was cancelled.")
    with services.database.read() as session:
        repository = Executions(session, caller.organization_id)
        return execution_status(repository.record(repository.get(project_id, job_id, execution_id)))


@router.post(
    "/executions/{executionId}/retry",
    summary="Retry an execution that has failed",
    description="A new attempt of the same execution, with the pipeline and parameters that were frozen for it. Where "
    "it waits for a slot, it does so in the order in which the executions were accepted.",
    responses=answers(404, 409, 429),
)
def retry_execution(
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Executor,
    services: ServicesOf,
    idempotency_key: Idempotent,
    key_ring: KeyRingOf,
    queue: Queue = False,
) -> Submission:
    execution = retry(
        services.database,
        caller.organization_id,
        project_id,
        job_id,
        execution_id,
        key_ring=key_ring,
        idempotency_key=idempotency_key,
        queue=queue,
    )
    return _submission(execution)
