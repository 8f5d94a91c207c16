"""Cron jobs as JSON. A secret is only named."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from api.kit.schemas import Body, Record
from api.webhooks.schemas import Try
from core.definitions.cron_jobs.scheduler import CronJobStatus
from core.infra.changes import Name, example
from core.tables import CronJobCall


class CronJobCreate(Body):
    """`name`, `webhookUrl` and one of `schedule` and `cronSchedule` are required."""

    model_config = example(
        {"name": "nightly", "schedule": "30 2 * * *", "webhookUrl": "https://example.com/hook", "jobId": "books"}
    )

    name: Name
    namespace: str | None = Field(default=None, description="Groups cron jobs; `default` when left out.")
    schedule: str | None = Field(
        default=None, description="When it fires: minute, hour, day, month and weekday, such as `30 6 * * MON-FRI`."
    )
    cron_schedule: str | None = Field(default=None, description="Another name of `schedule`.")
    timezone: str | None = Field(default=None, description="Timezone of the schedule; `UTC` when left out.")
    webhook_url: str = Field(description="The http or https address that is called. Redirects are not followed.")
    job_id: str | None = Field(default=None, description="Is posted as `jobId`.")
    project_id: str | None = Field(default=None, description="Is posted as `projectId`.")
    secret_name: str | None = Field(
        default=None, description="Name of the organization's cloud credential that is sent in `X-API-Key`."
    )
    secret_key: str | None = Field(
        default=None, description="Field of that credential, such as `apiSecret`; `apiKey` when left out."
    )
    cluster_provider: str | None = Field(default=None, description="Stored, without effect on this machine.")
    cluster_config_id: str | None = Field(default=None, description="Stored, without effect on this machine.")
    image: str | None = Field(default=None, description="Stored, without effect on this machine.")

    def values(self) -> dict[str, Any]:
        values = super().values()
        synonym = values.pop("cron_schedule", "")
        return values if values.get("schedule") else {**values, "schedule": synonym}


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
    """Field of that credential."""
    cluster_provider: str | None
    """As it was sent."""
    cluster_config_id: str | None
    """As it was sent."""
    image: str | None
    """As it was sent."""
    created_at: datetime
    next_tick_at: datetime | None
    """When it fires next."""


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
