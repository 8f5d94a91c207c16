"""Deadlines: tables that are not fresh any more, and executions that a rule expects by a time. One notice each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.definitions.schedules.cron import Cron, parse_cron
from core.definitions.schedules.times import read_deadline
from core.infra.database import Database
from core.infra.repository import lock_project
from core.infra.validation import format_time
from core.lifecycle.executions.events import record_stale
from core.lifecycle.executions.notices import BEGIN, END, LATE, record_job_notice, record_notice
from core.tables import Execution, Job, NotificationRule, Project
from core.tables.states import State

PAGE = 100


def check_deadlines(database: Database, at: datetime) -> None:
    """Record an event and notices for the jobs, and notices for the rules, whose deadline is over."""
    with database.read() as session:
        stale = session.execute(_select_stale(at).with_only_columns(Job.id, Job.project_id).limit(PAGE)).tuples().all()
        rules = {
            column: session.scalars(select(NotificationRule.id).where(column <= at).limit(PAGE)).all()
            for column in (NotificationRule.next_begin_at, NotificationRule.next_end_at)
        }
    for job_id, project_id in stale:
        with database.write() as session:
            lock_project(session, project_id)
            job = session.scalar(_select_stale(at).where(Job.id == job_id).with_for_update(of=Job))
            if job is not None:  # unless it was published meanwhile, or another process was faster
                _tell_stale(session, job)
    for column, rule_ids in rules.items():
        for rule_id in rule_ids:
            with database.write() as session:
                query = select(NotificationRule).where(NotificationRule.id == rule_id, column <= at)
                rule = session.scalar(query.with_for_update())
                if rule is not None:
                    _check_rule(session, rule, column, at)


def _select_stale(at: datetime) -> Select[tuple[Job]]:
    enabled = select(Job).join(Project, Project.id == Job.project_id).where(Job.enabled, Project.enabled)
    return enabled.where(Job.stale_at <= at).order_by(Job.stale_at)


def _tell_stale(session: Session, job: Job) -> None:
    since, max_age = job.stale_at, job.freshness.get("maxAge")
    job.stale_at = None
    if since is None or max_age is None:
        return
    record_stale(session, job, since)
    reason = f"It has published nothing for {max_age}: its table is stale since {format_time(since)}."
    record_job_notice(session, job, session.get_one(Project, job.project_id), LATE, reason)


def _check_rule(
    session: Session, rule: NotificationRule, column: InstrumentedAttribute[datetime | None], at: datetime
) -> None:
    """Tell of the rule's jobs without an execution by its deadline, and set the next one."""
    begins = column is NotificationRule.next_begin_at
    deadline: datetime | None = getattr(rule, column.key)
    text = rule.begin_by if begins else rule.end_by
    if deadline is None or text is None:
        return
    cron = parse_cron(read_deadline(text))
    setattr(rule, column.key, next(cron.iterate(at, rule.timezone), None))
    project = session.get_one(Project, rule.project_id)
    if not (rule.enabled and project.enabled):
        return
    since = _find_start(cron, rule.timezone, deadline)
    local = deadline.astimezone(ZoneInfo(rule.timezone))
    for job in _list_missing(session, rule, begins, since, deadline):
        verb = "begun" if begins else "completed"
        reason = f"No execution had {verb} by {local:%H:%M} ({rule.timezone}) on {local:%Y-%m-%d}."
        record_notice(session, rule, BEGIN if begins else END, f"{project.name}/{job.name}", reason, jobId=job.id)


def _find_start(cron: Cron, timezone: str, deadline: datetime) -> datetime:
    """Return the beginning of the deadline's day, or the deadline before it on the same day."""
    midnight = deadline.astimezone(ZoneInfo(timezone)).replace(hour=0, minute=0, second=0, microsecond=0)
    start = midnight.astimezone(deadline.tzinfo)
    for each in cron.iterate(start - timedelta(seconds=1), timezone):
        if each >= deadline:
            break
        start = each
    return start


def _list_missing(
    session: Session, rule: NotificationRule, begins: bool, since: datetime, deadline: datetime
) -> Sequence[Job]:
    """Return the rule's enabled jobs that have begun, or completed, no execution between the two times."""
    time = Execution.started_at if begins else Execution.completed_at
    counts = or_(Execution.publishes, ~Job.publish)
    found = select(Execution.id).where(Execution.job_id == Job.id, time >= since, time <= deadline, counts)
    if not begins:
        found = found.where(Execution.state == State.COMPLETED)
    query = select(Job).where(Job.project_id == rule.project_id, Job.enabled, ~found.exists()).order_by(Job.id)
    return session.scalars(query.where(Job.id == rule.job_id) if rule.job_id else query).all()
