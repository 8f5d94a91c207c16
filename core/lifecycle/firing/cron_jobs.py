"""Ticks of cron jobs: a tick stores one call, which the dispatcher of webhooks makes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.schedules.cron import parse_cron
from core.infra.database import Database, build_upsert
from core.infra.validation import format_time
from core.tables import CronJob, CronJobCall, new_id


@dataclass(frozen=True, slots=True)
class FiredCall:
    """The outcome of a tick: the id of its call, None when none was stored, and a sentence for the schedule's page."""

    call_id: str | None
    message: str


def fire(database: Database, cron_job_id: str, tick_at: datetime, at: datetime) -> FiredCall:
    """Store the call of a tick. A tick has one call, however often and by how many processes it is fired.

    Of ticks that were missed only the latest has a call: a tick is skipped when the next one is past too.
    """
    with database.write() as session:
        cron_job = session.get(CronJob, cron_job_id)
        if cron_job is None:
            return FiredCall(None, "The cron job was deleted.")
        if tick_at < cron_job.created_at:
            return FiredCall(None, "The tick is older than the cron job.")
        following = parse_cron(cron_job.schedule).list_next(tick_at, cron_job.timezone, 1)
        if following and following[0] <= at:
            return FiredCall(None, "The tick was missed, and a later one has passed since.")
        call_id = _insert_call(session, cron_job, tick_at, at)
        if call_id is None:
            return FiredCall(None, "The call of this tick was stored before.")
        _end_earlier_calls(session, cron_job, tick_at)
        return FiredCall(call_id, f"Call {call_id} to {cron_job.url} is due.")


def _insert_call(session: Session, cron_job: CronJob, tick_at: datetime, at: datetime) -> str | None:
    """Return the id of the new call; None when the tick has one."""
    statement = build_upsert(session, CronJobCall).values(
        id=new_id(),
        cron_job_id=cron_job.id,
        tick_at=tick_at,
        payload={"jobId": cron_job.job_id, "projectId": cron_job.project_id},
        state="PENDING",
        tries=[],
        created_at=at,
        available_at=at,
    )
    return session.scalar(statement.on_conflict_do_nothing().returning(CronJobCall.id))


def _end_earlier_calls(session: Session, cron_job: CronJob, tick_at: datetime) -> None:
    """End the calls that have failed and wait for another attempt: the new call says the same to the receiver."""
    pending = (CronJobCall.cron_job_id == cron_job.id, CronJobCall.state == "PENDING", CronJobCall.tick_at < tick_at)
    for call in session.scalars(select(CronJobCall).where(*pending).with_for_update()):
        if call.tries:
            last = call.tries[-1]
            error = f"{last['error']} It was not repeated after the tick of {format_time(tick_at)}."
            call.state, call.tries = "FAILED", [*call.tries[:-1], {**last, "error": error}]
