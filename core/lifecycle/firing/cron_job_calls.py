"""The calls of cron jobs as the dispatcher sends them: with a field of a cloud credential as the API key."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session

from core.definitions.cron_jobs.repository import SHOWN_CALLS
from core.definitions.cron_jobs.secret import HEADER, load_secret
from core.infra.database import Database, execute_update
from core.infra.dispatcher import Dispatch
from core.infra.encryption import KeyRing
from core.infra.http_client import send_request
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.tables import CronJob, CronJobCall
from pipelines.http_client.client import HttpResponse

GONE = 410


class CallQueue:
    """The calls of cron jobs, as the dispatcher sends them."""

    messages = CronJobCall
    receivers = CronJob

    def select(self) -> Select[tuple[CronJobCall, CronJob]]:
        return select(CronJobCall, CronJob).join(CronJob, CronJob.id == CronJobCall.cron_job_id)

    def send(self, settings: Settings, database: Database, dispatch: Dispatch, at: datetime) -> HttpResponse:
        """Post the call; headers with its id let a receiver recognize a repeated one."""
        call_id, cron_job = dispatch.message.id, cast(CronJob, dispatch.receiver)
        headers = {"Content-Type": "application/json", "webhook-id": call_id, "Idempotency-Key": call_id}
        if cron_job.secret_name is not None and cron_job.secret_key is not None:
            key_ring, owner = KeyRing(load_service_key(settings)), cron_job.organization_id
            with database.read() as session:
                headers[HEADER] = load_secret(session, owner, cron_job.secret_name, cron_job.secret_key, key_ring)
        return send_request(settings, "POST", cron_job.url, headers, dispatch.body)

    def handle_failure(self, session: Session, dispatch: Dispatch, response: HttpResponse, failure: str) -> None:
        """Repeat no call whose receiver answers 410. The ticks to come are called all the same."""
        if response.status == GONE:
            dispatch.message.state = "FAILED"


def delete_old_calls(session: Session, before: datetime, limit: int | None) -> int:
    """Delete at most `limit` calls from before a time, but not a cron job's last ones; return their number."""
    newest_first = func.row_number().over(partition_by=CronJobCall.cron_job_id, order_by=CronJobCall.tick_at.desc())
    ranked = select(CronJobCall.id, newest_first.label("rank")).subquery()
    old = (
        CronJobCall.created_at < before,
        CronJobCall.id.in_(select(ranked.c.id).where(ranked.c.rank > SHOWN_CALLS)),
    )
    chosen = select(CronJobCall.id).where(*old).limit(limit)
    return execute_update(session, delete(CronJobCall).where(CronJobCall.id.in_(chosen)))
