"""The completion webhook: reports with a key of the organization, or signed with the token of an attempt."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Security

from api.kit.auth import authorize, identify, key_header
from api.kit.errors import answers
from api.kit.schemas import JobId, Nothing, ProjectId
from api.kit.services import ServicesOf
from core.lifecycle.executions.payload import CompletionPayload

router = APIRouter(prefix="/jobs/{jobId}", tags=["executions"])
SCOPE = "jobs:execute"


async def _read_body(request: Request) -> bytes:
    return await request.body()


@router.post(
    "/completion",
    summary="Report the start or the end of an execution",
    description="Needs a key with the scope, or the signature headers of Standard Webhooks, made with the token of the "
    "execution's attempt. Reports that arrive twice, late or in the wrong order change nothing and get the same "
    "answer, and so do reports of an earlier attempt. A signature identifies the attempt. With a key, "
    "`additionalMetrics.attempt` does; without it, the report is about the current attempt.",
    responses=answers(404),
)
def complete_job(
    project_id: ProjectId,
    job_id: JobId,
    payload: CompletionPayload,
    request: Request,
    body: Annotated[bytes, Depends(_read_body)],
    services: ServicesOf,
    _documented: Annotated[str | None, Security(key_header, scopes=[SCOPE])],
) -> Nothing:
    if "webhook-signature" in request.headers:
        services.executions.record_signed_report(project_id, job_id, payload, request.headers, body)
    else:
        identify(request)
        services.executions.record_report(authorize(request, SCOPE), project_id, job_id, payload)
    return Nothing()
