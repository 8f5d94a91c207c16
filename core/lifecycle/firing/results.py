"""The results of a tick as a sentence."""

from __future__ import annotations

from sqlalchemy import select

from core.infra.database import Database
from core.lifecycle.firing.schedules import FiredTick
from core.tables import TickJob

MAX_JOBS = 20


def describe_tick(database: Database, tick: FiredTick) -> str:
    """Return a sentence for every job of the tick, or the reason for which it did not fire."""
    if tick.tick_id is None or tick.state != "FIRED":
        return tick.reason or "The tick did not fire."
    with database.read() as session:
        query = select(TickJob).where(TickJob.tick_id == tick.tick_id).order_by(TickJob.job_name, TickJob.id)
        jobs = session.scalars(query).all()
    sentences = [_describe(job) for job in jobs[:MAX_JOBS]]
    if len(jobs) > MAX_JOBS:
        sentences.append(f"And {len(jobs) - MAX_JOBS} more jobs.")
    return "\n".join(sentences)


def _describe(job: TickJob) -> str:
    if job.state == "SUBMITTED":
        return f"{job.job_name}: execution {job.execution_id} was accepted."
    if job.state == "WAITING":
        return f"{job.job_name}: waits for other executions."
    return f"{job.job_name}: {job.state.lower()}. {job.reason}"
