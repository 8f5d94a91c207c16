"""Notices for a project's notification rules, recorded in the transaction of their event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from core.infra.validation import format_time
from core.lifecycle.executions.repository import select_comparable
from core.lifecycle.executions.retries import FailureCode
from core.tables import Execution, ExecutionAttempt, ExecutionBill, Job, Notification, NotificationRule, Project, now
from core.tables.states import State
from pipelines.contract.progress import Progress

FAILED, RECOVERED, WARNED, LATE, DEGRADED = EVENTS = ("failed", "recovered", "warned", "late", "degraded")
ROWS, COST, BEGIN, END = "rows", "cost", "begin", "end"
GATHER = timedelta(seconds=2)  # for notices of one moment to become one message
MAX_REASON = 500
MICRO = 10**6


def record_notice(
    session: Session, rule: NotificationRule, event: str, subject: str, reason: str, **ids: str | None
) -> None:
    """Record one notice, whose message is sent once the rule's pause is over."""
    payload = {"notices": [build_notice(event, subject, reason, **ids)]}
    session.add(Notification(rule_id=rule.id, type=event, payload=payload, available_at=now() + GATHER))


def build_notice(event: str, subject: str, reason: str, **ids: str | None) -> Mapping[str, str | None]:
    """Return a notice as messages have it; `ids` are of what its link shows."""
    reason = " ".join(reason.split())[:MAX_REASON]
    return {"event": event, "subject": subject, "reason": reason, **ids, "at": format_time(now())}


def record_job_notice(session: Session, job: Job, project: Project, event: str, reason: str) -> None:
    """Record a notice about a job for every rule of its project that has the event."""
    for rule in _load_rules(session, project.id, job.id):
        if event in rule.events:
            record_notice(session, rule, event, f"{project.name}/{job.name}", reason, jobId=job.id)


def record_service_notice(session: Session, event: str, reason: str) -> None:
    """Record a notice about the service for every rule with `degraded`."""
    for rule in session.scalars(select(NotificationRule).where(NotificationRule.enabled)).all():
        if DEGRADED in rule.events:
            record_notice(session, rule, event, "The service", reason)


def record_end(session: Session, execution: Execution) -> None:
    """Record the notices about an execution that has ended, unless it was a trial or was cancelled."""
    if not execution.publishes or execution.state == State.CANCELLED:
        return
    rules = _load_rules(session, execution.project_id, execution.job_id)
    if not rules:
        return
    project = session.get_one(Project, execution.project_id)
    subject = f"{project.name}/{execution.job_name}"
    ids = {"jobId": execution.job_id, "executionId": execution.id, "runId": execution.run_id}
    ended = Execution.state.in_((State.COMPLETED, State.FAILED))
    earlier = session.scalar(select_comparable(execution).where(ended).limit(1))
    for rule in rules:
        for event, reason in _find_events(session, rule, execution, earlier):
            record_notice(session, rule, event, subject, reason, **ids)


def _load_rules(session: Session, project_id: str, job_id: str) -> list[NotificationRule]:
    of_job = or_(NotificationRule.job_id.is_(None), NotificationRule.job_id == job_id)
    enabled = (NotificationRule.project_id == project_id, NotificationRule.enabled, of_job)
    return list(session.scalars(select(NotificationRule).where(*enabled)))


def _find_events(
    session: Session, rule: NotificationRule, execution: Execution, earlier: Execution | None
) -> Iterator[tuple[str, str]]:
    """Yield the events of an ended execution that the rule tells, with their reasons."""
    if execution.state == State.FAILED:
        if FAILED in rule.events:
            yield FAILED, execution.error_message or "It gave no reason."
        has_rows = False
    else:
        if RECOVERED in rule.events and _has_recovered(session, execution, earlier):
            yield RECOVERED, "It has completed after a failure."
        checks = Progress.from_report(execution.progress).checks if WARNED in rule.events else ()
        if warnings := [each.message or f"The check {each.check} failed." for each in checks if not each.passed]:
            yield WARNED, " ".join(warnings)
        has_rows = True
    if rule.min_row_share and has_rows and earlier is not None and earlier.state == State.COMPLETED:
        rows, before = _count_rows(execution), _count_rows(earlier)
        if rows is not None and before is not None and rows < rule.min_row_share * before:
            yield ROWS, f"It has {rows:,} rows, less than {rule.min_row_share:.0%} of the {before:,} before."
    if rule.max_cost:
        bill = session.get_one(ExecutionBill, (execution.id, execution.attempt))
        parts = (bill.driver_cost, bill.executors_cost, bill.read_cost, bill.write_cost, bill.network_cost)
        if (cost := sum(parts) / MICRO) > rule.max_cost:
            yield COST, f"It cost {cost:.2f} {bill.currency}, more than {rule.max_cost:.2f}."


def _has_recovered(session: Session, execution: Execution, earlier: Execution | None) -> bool:
    """Return whether the execution had failed before somebody retried it, or the one before it has failed."""
    if (before := execution.attempt - execution.retries - 1) > 0:
        ended = session.get(ExecutionAttempt, (execution.id, before))
        return ended is not None and ended.state == State.FAILED and ended.error_code != FailureCode.STOPPED
    return earlier is not None and earlier.state == State.FAILED


def _count_rows(execution: Execution) -> int | None:
    rows: Any = execution.metrics.get("records_output")
    return rows if isinstance(rows, int) else None
