"""The webhook that the compute side reports to: with a key of the organization, or signed by the execution's token."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Security

from api.kit.auth import identify, key_header, require
from api.kit.errors import answers
from api.kit.schemas import JobId, Nothing, ProjectId
from api.kit.services import Services, ServicesOf
from core.executions.complete import record
from core.executions.payload import CompletionPayload
from core.executions.queries import newest_attempt
from core.executions.tokens import execution_token, find_signer

router = APIRouter(prefix="/jobs/{jobId}", tags=["executions"])
SCOPE = "jobs:execute"
REMEMBERED_ATTEMPTS = 20


async def _text(request: Request) -> bytes:
    return await request.body()


@router.post(
    "/completion",
    summary="Report the start or the end of an execution",
    description="Needs a key with the scope, or the signature headers of Standard Webhooks made with the token of the "
    "execution. Reports that come twice, late or in the wrong order change nothing and are answered alike. Each "
    "attempt has a token of its own, which tells the attempt: what an earlier one still reports changes nothing. "
    "With a key, `additionalMetrics.attempt` tells it; without that, the report is of the current attempt.",
    responses=answers(404),
)
def complete_job(
    project_id: ProjectId,
    job_id: JobId,
    payload: CompletionPayload,
    request: Request,
    text: Annotated[bytes, Depends(_text)],
    services: ServicesOf,
    _documented: Annotated[str | None, Security(key_header, scopes=[SCOPE])],
) -> Nothing:
    organization_id = None
    if "webhook-signature" in request.headers:
        signed = {"attempt": _signed_attempt(services, request, text, payload)}
        payload = payload.model_copy(update={"additional_metrics": (payload.additional_metrics or {}) | signed})
    else:
        identity = identify(request)
        require(identity, SCOPE)
        organization_id = identity.organization_id
    record(services.database, organization_id, project_id, job_id, payload)
    return Nothing()


def _signed_attempt(services: Services, request: Request, text: bytes, payload: CompletionPayload) -> int:
    """The attempt whose token signed the report: the one that it names, else one of the latest."""
    if payload.attempt is not None:
        attempts = range(payload.attempt, payload.attempt + 1)
    else:
        with services.database.read() as session:
            newest = newest_attempt(session, payload.execution_id)
        attempts = range(newest, max(newest - REMEMBERED_ATTEMPTS, 0), -1)
    tokens = [execution_token(services.settings, payload.execution_id, attempt) for attempt in attempts]
    return attempts[find_signer(tokens, request.headers, text)]
