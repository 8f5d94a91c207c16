"""Ticks of schedules: a tick is recorded once, with one row per job, and a row becomes at most one execution.

Dagster's schedules call `fire`. The launcher repeats `fire_overdue` and `submit_waiting`, which finish what a process
left undone, and submit the jobs that had to wait. A tick and its rows are one transaction, and so are an execution and
the row that it belongs to: every process may be killed at any point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from core.definitions.schedules.cron import Cron
from core.definitions.schedules.repository import ScheduleRepository, find_cron
from core.definitions.schedules.service import NO_JOB
from core.infra.database import Database, execute_update
from core.infra.settings import Settings
from core.lifecycle.firing.waiting import submit_tick
from core.lifecycle.outlines.outlines import load_outlines
from core.tables import Execution, Job, Project, Schedule, ScheduleTick, TickJob
from core.tables.schedules import WAITING
from core.tables.states import TERMINAL

GRACE = timedelta(seconds=15)  # for Dagster to fire a tick before the launcher does
LATE = timedelta(minutes=5)  # from here on, a tick counts as missed where missed ones are not fired
LONGEST_GAP = timedelta(days=31)
MAX_CATCH_UP = 100
MAX_OVERDUE = 50
MAX_BACKLOG = 100
KEEP = timedelta(days=90)
PASSED_OVER = "A later tick was due already when the schedule could be fired again."
TOO_LATE = "The schedule could not be fired at this time."
DISABLED = "The schedule is disabled."
DISABLED_PROJECT = "The project is disabled."
NO_JOBS = "The project has no enabled job."
OVERLAP = "An earlier execution of the job has not ended."
BACKLOG = f"{MAX_BACKLOG} earlier ticks of the job are waiting."
UNKNOWN = "The schedule has no tick at this time."


@dataclass(frozen=True, slots=True)
class FiredTick:
    """A tick: FIRED, SKIPPED or MISSED for a reason. It has no id when the schedule has no such tick."""

    tick_id: str | None
    tick_at: datetime
    state: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Upstream:
    """The jobs of a project that read the output of others of its jobs, by id."""

    inputs: Mapping[str, Sequence[str]]


def fire(database: Database, settings: Settings, schedule_id: str, tick_at: datetime, at: datetime) -> FiredTick:
    """Fire the tick unless that was done before, and the missed ones before it by the schedule's rule.

    `at` is the time of the clock. Concurrent and repeated calls for one tick return the same record.
    """
    tick = _record(database, schedule_id, tick_at, at)
    if tick.tick_id is not None and tick.state == "FIRED":
        submit_tick(database, settings, tick.tick_id)
    return tick


def fire_overdue(database: Database, settings: Settings, at: datetime) -> list[FiredTick]:
    """Fire the ticks that were due for a while and that Dagster has not fired; plan schedules of older versions."""
    _plan_new(database, at)
    until = at - GRACE
    query = select(Schedule.id, Schedule.next_tick_at).where(Schedule.next_tick_at <= until)
    with database.read() as session:
        due = session.execute(query.order_by(Schedule.next_tick_at).limit(MAX_OVERDUE)).all()
    fired: list[FiredTick] = []
    for schedule_id, _ in due:
        newest = _find_newest(database, schedule_id, until)
        if newest is not None:
            fired.append(fire(database, settings, schedule_id, newest, at))
    return fired


def list_jobs(session: Session, schedule: Schedule) -> Sequence[Job]:
    """Return the jobs that a tick of the schedule executes."""
    query = select(Job).where(Job.project_id == schedule.project_id).order_by(Job.id)
    query = query.where(Job.id == schedule.job_id) if schedule.job_id else query.where(Job.enabled)
    return session.scalars(query).all()


def _plan_new(database: Database, at: datetime) -> None:
    query = select(Schedule).where(Schedule.planned_for.is_(None))
    with database.read() as session:
        if session.scalar(query.limit(1)) is None:
            return
    with database.write() as session:
        for schedule in session.scalars(query).all():
            project = session.get_one(Project, schedule.project_id)
            ScheduleRepository(session, schedule.organization_id).plan(project, at)


def _find_newest(database: Database, schedule_id: str, until: datetime) -> datetime | None:
    with database.read() as session:
        schedule = session.get(Schedule, schedule_id)
        project = session.get(Project, schedule.project_id) if schedule else None
    cron = find_cron(project, schedule) if project and schedule else None
    pending = _list_pending(cron, schedule, until) if cron and schedule else ()
    return pending[-1] if pending else None


def _record(database: Database, schedule_id: str, tick_at: datetime, at: datetime) -> FiredTick:
    """Record the tick with a row for every job, and those before it; return the existing record of a known one."""
    with database.read() as session:  # reading pipelines takes longer than SQLite's only writer should be blocked
        schedule = session.get(Schedule, schedule_id)
        known = _find_tick(session, schedule_id, tick_at)
        if schedule is None or known is not None:
            return known or FiredTick(None, tick_at, "SKIPPED", UNKNOWN)
        upstream = _load_upstream(session, schedule)
    with database.write() as session:
        lock = select(Schedule).where(Schedule.id == schedule_id).with_for_update()
        schedule = session.scalar(lock)
        known = _find_tick(session, schedule_id, tick_at)
        if schedule is None or known is not None:
            return known or FiredTick(None, tick_at, "SKIPPED", UNKNOWN)
        project = session.get_one(Project, schedule.project_id)
        ScheduleRepository(session, schedule.organization_id).plan(project, at)
        return _Recorder(session, schedule, project, upstream, at).record(tick_at)


def _find_tick(session: Session, schedule_id: str, tick_at: datetime) -> FiredTick | None:
    same = (ScheduleTick.schedule_id == schedule_id, ScheduleTick.tick_at == tick_at)
    tick = session.scalar(select(ScheduleTick).where(*same))
    return None if tick is None else FiredTick(tick.id, tick.tick_at, tick.state, tick.reason)


def _load_upstream(session: Session, schedule: Schedule) -> _Upstream:
    if schedule.job_id is not None:
        return _Upstream({})
    ids = session.scalars(select(Job.id).where(Job.project_id == schedule.project_id, Job.enabled)).all()
    outlines = load_outlines(session, ids) if len(ids) > 1 else []
    by_key = {outline.key: outline.job_id for outline in outlines}
    return _Upstream({outline.job_id: [by_key[key] for key in outline.inputs if key in by_key] for outline in outlines})


def _list_pending(cron: Cron, schedule: Schedule, until: datetime) -> list[datetime]:
    """Return the ticks up to this time that were not handled, oldest first; very old ones are left out."""
    if schedule.next_tick_at is None or schedule.next_tick_at > until:
        return []
    first = max(schedule.next_tick_at, until - LONGEST_GAP)
    pending: list[datetime] = []
    for tick_at in cron.iterate(first - timedelta(seconds=1), schedule.timezone):
        if tick_at > until:
            break
        pending.append(tick_at)
    return pending[-MAX_CATCH_UP:]


@dataclass(frozen=True, slots=True)
class _Recorder:
    """Writes the ticks of one schedule, whose row is locked."""

    session: Session
    schedule: Schedule
    project: Project
    upstream: _Upstream
    at: datetime

    def record(self, tick_at: datetime) -> FiredTick:
        cron = find_cron(self.project, self.schedule)
        if cron is None or tick_at not in cron.list_next(tick_at - timedelta(seconds=1), self.schedule.timezone, 1):
            return FiredTick(None, tick_at, "SKIPPED", UNKNOWN)
        if not self.schedule.enabled:
            return self._add(tick_at, "SKIPPED", DISABLED)
        pending = _list_pending(cron, self.schedule, tick_at)
        if not pending:  # it was handled before, or the schedule was set after it
            return FiredTick(None, tick_at, "SKIPPED", UNKNOWN)
        missed = self.schedule.missed
        for older in pending[:-1]:
            if missed == "all" and self.project.enabled:
                self._fire(older, caught_up=True)
            else:
                self._add(older, "MISSED", PASSED_OVER)
        self.schedule.next_tick_at = next(cron.iterate(tick_at, self.schedule.timezone), None)
        expired = (ScheduleTick.schedule_id == self.schedule.id, ScheduleTick.tick_at < self.at - KEEP)
        execute_update(self.session, delete(ScheduleTick).where(*expired))
        if not self.project.enabled:
            return self._add(tick_at, "SKIPPED", DISABLED_PROJECT)
        if missed == "none" and self.at - tick_at > LATE:
            return self._add(tick_at, "MISSED", TOO_LATE)
        return self._fire(tick_at, caught_up=missed == "all" and len(pending) > 1)

    def _add(self, tick_at: datetime, state: str, reason: str | None = None) -> FiredTick:
        known = _find_tick(self.session, self.schedule.id, tick_at)
        if known is not None:  # an older schedule of the project had a tick at this time too
            return known
        tick = ScheduleTick(schedule_id=self.schedule.id, tick_at=tick_at, state=state, reason=reason)
        tick.created_at = self.at
        self.session.add(tick)
        self.session.flush()
        return FiredTick(tick.id, tick_at, state, reason)

    def _fire(self, tick_at: datetime, *, caught_up: bool) -> FiredTick:
        """Record the tick with its jobs. Ticks that are caught up wait for each other instead of overlapping."""
        if _find_tick(self.session, self.schedule.id, tick_at) is not None:
            return self._add(tick_at, "FIRED")
        jobs = list_jobs(self.session, self.schedule)
        if not jobs:
            return self._add(tick_at, "SKIPPED", NO_JOB if self.schedule.job_id else NO_JOBS)
        tick = self._add(tick_at, "FIRED")
        overlap = "queue" if caught_up and self.schedule.overlap == "skip" else self.schedule.overlap
        skipped = self._find_overlapping(jobs, overlap)
        fired = {job.id for job in jobs if job.id not in skipped}
        for job in jobs:
            row = TickJob(tick_id=tick.tick_id, job_id=job.id, job_name=job.name, overlap=overlap)
            row.after = [each for each in self.upstream.inputs.get(job.id, ()) if each in fired]
            if job.id in skipped:
                row.state, row.reason, row.code = "SKIPPED", skipped[job.id], "overlap"
            self.session.add(row)
        self.session.flush()
        return tick

    def _find_overlapping(self, jobs: Sequence[Job], overlap: str) -> Mapping[str, str]:
        """Return the reasons for which jobs are skipped, by id.

        Executions of a job with partitions do not overlap, but those of one partition, which acceptance refuses.
        """
        ids = [job.id for job in jobs if not job.partitions]
        rows = self.session.scalars(select(TickJob.job_id).where(WAITING, TickJob.job_id.in_(ids))).all()
        if overlap == "queue":
            return {job_id: BACKLOG for job_id in ids if rows.count(job_id) >= MAX_BACKLOG}
        if overlap == "allow":
            return {}
        running = select(Execution.job_id).where(Execution.job_id.in_(ids), Execution.state.not_in(TERMINAL))
        return dict.fromkeys([*rows, *self.session.scalars(running.distinct())], OVERLAP)
