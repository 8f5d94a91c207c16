"""Cron jobs: addresses that are called on a cron schedule."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from api.cron_jobs.schemas import CronJobDetails, CronJobRecord, cron_job_details, cron_job_record
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from core.definitions.cron_jobs import embedded
from core.definitions.cron_jobs.models import DEFAULT_NAMESPACE, CronJobCreate, CronJobUpdate
from core.infra.preconditions import add_etag

router = APIRouter(prefix="/scheduler/cronjobs", tags=["cron jobs"], route_class=KeyRoute)
CronJobName = Annotated[str, Path(alias="name", description="Name of the cron job.")]
Namespace = Annotated[str, Query(description="Namespace of the cron jobs, `default` when left out.")]


@router.get("", summary="List the cron jobs of a namespace")
def list_cron_jobs(
    caller: Reader, session: ReadSession, page: PageOf, namespace: Namespace = DEFAULT_NAMESPACE
) -> list[CronJobRecord]:
    """Return the cron jobs of one namespace, oldest first, with the time of their next call."""
    rows = embedded.list_cron_jobs(session, caller, namespace or DEFAULT_NAMESPACE, limit=page.limit, after=page.after)
    page.link([status.cron_job.id for status in rows])
    return [cron_job_record(status) for status in rows]


@router.post(
    "",
    dependencies=[REPLAYED],
    status_code=201,
    summary="Have an address called on a cron schedule",
    description="At each tick `{jobId, projectId}` is posted to `webhookUrl`, with the field `secretKey` of the cloud "
    "credential `secretName` in the header `X-API-Key`. Until a 2xx answers it, the call is repeated with growing "
    "pauses for a day, or until the next tick, always under the same `Idempotency-Key`. The `webhookUrl` may be the "
    "address of an operation of this service, such as a job's `execute`.",
)
def create_cron_job(
    body: CronJobCreate, caller: Writer, services: ServicesOf, session: WriteSession, key_ring: KeyRingOf
) -> CronJobRecord:
    return cron_job_record(services.cron_jobs.create(session, caller, body, key_ring))


@router.get("/{name}", summary="Read a cron job with its last calls", responses={**TAGGED, **answers(404)})
def read_cron_job(
    name: CronJobName,
    caller: Reader,
    services: ServicesOf,
    session: ReadSession,
    response: Response,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> CronJobDetails:
    """Return a cron job, the time of its next call, and the results of the last 20."""
    found = services.cron_jobs.get(session, caller, name, namespace or DEFAULT_NAMESPACE)
    set_etag(response, add_etag(found.cron_job))
    return cron_job_details(found)


@router.put(
    "/{name}",
    summary="Change, pause or resume a cron job; what the body leaves out stays",
    description="With `enabled: false` it does not fire until `enabled: true`; ticks of that time are not made up. An "
    "empty text removes `jobId`, `projectId`, or `secretName` with its `secretKey`.",
    responses={**TAGGED, **answers(404, 412)},
)
def update_cron_job(
    name: CronJobName,
    body: CronJobUpdate,
    caller: Writer,
    services: ServicesOf,
    session: WriteSession,
    key_ring: KeyRingOf,
    if_match: IfMatch,
    response: Response,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> CronJobRecord:
    changed = services.cron_jobs.update(session, caller, name, body, key_ring, namespace or DEFAULT_NAMESPACE, if_match)
    set_etag(response, add_etag(changed.cron_job))
    return cron_job_record(changed)


@router.delete("/{name}", summary="Delete a cron job", responses=answers(404))
def delete_cron_job(
    name: CronJobName,
    caller: Writer,
    services: ServicesOf,
    session: WriteSession,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Nothing:
    """Delete a cron job with its results. Calls that wait for another attempt are not made."""
    services.cron_jobs.delete(session, caller, name, namespace or DEFAULT_NAMESPACE)
    return Nothing()
