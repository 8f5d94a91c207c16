"""The webhook that the compute side reports to: with a key of the organization, or signed by the execution's token."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Security

from api.kit.auth import identify, key_header, require
from api.kit.errors import answers
from api.kit.schemas import JobId, Nothing, ProjectId
from api.kit.service import Service, ServiceOf
from core.executions.complete import record
from core.executions.payload import CompletionPayload
from core.executions.tokens import execution_token, verify_signature
from core.tables import now

router = APIRouter(prefix="/jobs/{jobId}", tags=["executions"])
SCOPE = "jobs:execute"
FIRST_ATTEMPT = 1


async def _text(request: Request) -> bytes:
    return await request.body()


@router.post(
    "/completion",
    summary="Report the start or the end of an execution",
    description="Needs a key with the scope, or the signature headers of Standard Webhooks made with the token of the "
    "execution. Reports that come twice, late or in the wrong order change nothing and are answered alike.",
    responses=answers(404),
)
def complete_job(
    project_id: ProjectId,
    job_id: JobId,
    payload: CompletionPayload,
    request: Request,
    text: Annotated[bytes, Depends(_text)],
    service: ServiceOf,
    _documented: Annotated[str | None, Security(key_header, scopes=[SCOPE])],
) -> Nothing:
    organization_id = _organization(service, request, text, payload)
    if organization_id is None and payload.attempt is None:  # a token is good for its own attempt alone
        first = {**(payload.additional_metrics or {}), "attempt": FIRST_ATTEMPT}
        payload = payload.model_copy(update={"additional_metrics": first})
    record(service.database, organization_id, project_id, job_id, payload)
    return Nothing()


def _organization(service: Service, request: Request, text: bytes, payload: CompletionPayload) -> str | None:
    """The organization whose executions the reporter may speak of; None when the execution's own token signed."""
    if "webhook-signature" in request.headers:
        token = execution_token(service.settings, payload.execution_id, payload.attempt or FIRST_ATTEMPT)
        verify_signature(token, request.headers, text, now())
        return None
    identity = identify(request)
    require(identity, SCOPE)
    return identity.organization_id
