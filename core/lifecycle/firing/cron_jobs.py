"""Ticks of cron jobs: a tick stores one call, which the dispatcher of webhooks makes.

Dagster's schedules call `fire`. The launcher repeats `fire_overdue_calls` for the ticks that Dagster did not fire, such
as those that were due before its code server had loaded a new cron job.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from core.definitions.schedules.cron import parse_cron
from core.infra.database import Database, build_upsert, execute_update
from core.infra.validation import format_time
from core.lifecycle.firing.schedules import GRACE, LONGEST_GAP, MAX_OVERDUE
from core.tables import CronJob, CronJobCall, new_id

WINDOWS = (timedelta(hours=2), timedelta(days=2), LONGEST_GAP)  # in which the newest tick is looked for


@dataclass(frozen=True, slots=True)
class FiredCall:
    """The outcome of a tick: the id of the stored call, if any, and a sentence for the schedule's page."""

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
        if not cron_job.enabled:
            return FiredCall(None, "The cron job is paused.")
        following = _list_next(cron_job, tick_at)
        if following and following[0] <= at:
            return FiredCall(None, "The tick was missed, and a later one has passed since.")
        if _list_next(cron_job, tick_at - timedelta(seconds=1)) == [tick_at]:  # a call by hand is no tick
            _store_next_tick(session, cron_job, tick_at, following[0] if following else None)
        call_id = _insert_call(session, cron_job, tick_at, at)
        if call_id is None:
            return FiredCall(None, "The call of this tick was stored before.")
        _end_earlier_calls(session, cron_job, tick_at)
        return FiredCall(call_id, f"Call {call_id} to {cron_job.url} is due.")


def fire_overdue_calls(database: Database, at: datetime) -> list[FiredCall]:
    """Fire the newest tick of every cron job that was due for a while and that Dagster has not fired."""
    until = at - GRACE
    query = select(CronJob).where(CronJob.next_tick_at <= until).order_by(CronJob.next_tick_at).limit(MAX_OVERDUE)
    with database.read() as session:
        due = session.scalars(query).all()
    newest = [(cron_job.id, _find_newest_tick(cron_job, until)) for cron_job in due]
    return [fire(database, cron_job_id, tick_at, at) for cron_job_id, tick_at in newest]


def _find_newest_tick(cron_job: CronJob, until: datetime) -> datetime:
    """Return the newest tick up to this time that was not handled."""
    first = cron_job.next_tick_at or until
    cron = parse_cron(cron_job.schedule)
    for window in WINDOWS:
        start = max(first, until - window) - timedelta(seconds=1)
        ticks = list(takewhile(lambda tick_at: tick_at <= until, cron.iterate(start, cron_job.timezone)))
        if ticks:
            return ticks[-1]
    return first


def _list_next(cron_job: CronJob, after: datetime) -> list[datetime]:
    return parse_cron(cron_job.schedule).list_next(after, cron_job.timezone, 1)


def _store_next_tick(session: Session, cron_job: CronJob, tick_at: datetime, following: datetime | None) -> None:
    handled = (CronJob.id == cron_job.id, CronJob.next_tick_at <= tick_at)
    values = {"next_tick_at": following, "updated_at": CronJob.updated_at}
    execute_update(session, update(CronJob).where(*handled).values(values))


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
