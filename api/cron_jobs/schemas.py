"""Cron jobs as JSON. A secret is only named."""

from __future__ import annotations

from datetime import datetime

from api.kit.schemas import Record
from api.webhooks.schemas import Try
from core.definitions.cron_jobs.scheduler import CronJobStatus
from core.tables import CronJobCall


class CronJobRecord(Record):
    name: str
    """Name, unique in its namespace."""
    namespace: str
    """Namespace that it belongs to."""
    schedule: str
    """When it fires, as it was sent."""
    timezone: str
    """Timezone of the schedule."""
    webhook_url: str
    """The address that is called."""
    job_id: str | None
    """Is posted as `jobId`."""
    project_id: str | None
    """Is posted as `projectId`."""
    secret_name: str | None
    """Name of the cloud credential that is sent; null for none."""
    secret_key: str | None
    """Field of that credential, as it was sent."""
    cluster_provider: str | None
    """As it was sent."""
    cluster_config_id: str | None
    """As it was sent."""
    image: str | None
    """As it was sent."""
    enabled: bool
    """Whether it fires."""
    created_at: datetime
    next_tick_at: datetime | None
    """When it fires next; null while it is paused, and where its times never come."""


class CronJobResult(Record):
    """The call of one tick."""

    id: str
    """Id of the call, the headers `webhook-id` and `Idempotency-Key` of every try."""
    tick_at: datetime
    """When the call was due."""
    state: str
    """PENDING, DELIVERED or FAILED."""
    tries: list[Try]
    """The tries so far."""
    delivered_at: datetime | None
    """When a 2xx answered it; null before."""
    next_try_at: datetime | None
    """When it is sent again; null when it is not."""


class CronJobDetails(CronJobRecord):
    results: list[CronJobResult]
    """The calls of the last 20 ticks, newest first."""


def cron_job_record(status: CronJobStatus) -> CronJobRecord:
    cron_job = status.cron_job
    return CronJobRecord.from_row(cron_job, webhook_url=cron_job.url, next_tick_at=status.next_tick_at)


def cron_job_details(status: CronJobStatus) -> CronJobDetails:
    results = [_build_result(call) for call in status.calls]
    return CronJobDetails(**cron_job_record(status).model_dump(), results=results)


def _build_result(call: CronJobCall) -> CronJobResult:
    next_try_at = call.available_at if call.state == "PENDING" else None
    return CronJobResult.from_row(
        call, tries=[Try.model_validate(each) for each in call.tries], next_try_at=next_try_at
    )
