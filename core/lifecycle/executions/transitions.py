"""Changes of state, with the slots of a project that they take or release, and the events that they record.

A slot is one of the executions that a project may have pending or running at once. A cancelled execution that has been
claimed keeps its slot until its driver has ended. One that waits for its next attempt is queued, without a slot. Locks
are always taken in this order: organization, project, pools, limits of the
organization, execution, job, task.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from core.errors import TooMany
from core.infra.database import execute_update
from core.infra.repository import lock_project
from core.lifecycle.executions.attempts import build_attempt, get_values_of_next
from core.lifecycle.executions.events import record_state
from core.lifecycle.executions.notices import record_end
from core.lifecycle.executions.pools import (
    MAX_CONCURRENT_EXECUTIONS,
    ORGANIZATION,
    PROJECT,
    Waiter,
    find_full_organization,
    find_full_pools,
    list_waiters,
    lock_pools,
    note_turns,
)
from core.lifecycle.executions.retries import FailureCode, compute_pause, has_retry
from core.lifecycle.executions.states import Trigger, get_next_state, get_sources
from core.lifecycle.usage.bills import store_bill
from core.tables import Execution, Job, OutboxMessage, Project, Task, now
from core.tables.executions import QUEUED
from core.tables.states import State

MAX_QUEUED_EXECUTIONS = 1000
RETRY_AFTER_SECONDS = 10


def move(
    session: Session, execution: Execution, trigger: Trigger, *conditions: ColumnElement[bool], **values: Any
) -> bool:
    """Apply the trigger where the state table and the conditions allow it; return False when nothing changed."""
    lock_project(session, execution.project_id)
    found = session.scalar(select(Execution.state).where(Execution.id == execution.id).with_for_update())
    state = get_next_state(State(found), trigger) if found else None
    if found is None or state is None:
        return False
    if state.holds_slot:
        values["holds_slot"] = True
    if state.terminal:
        values.setdefault("completed_at", now())
        values["sealed_environment"] = None  # its secrets are not needed any more
        values["retry_at"] = None
    same = (Execution.id == execution.id, Execution.state == found, *conditions)
    if not execute_update(session, update(Execution).where(*same).values(state=state, updated_at=now(), **values)):
        return False
    session.refresh(execution)
    _touch_job_and_task(session, execution)
    record_state(session, execution)
    if state.terminal:
        store_bill(session, execution)
        record_end(session, execution)
        _withdraw_launch(session, execution)
        if state is not State.CANCELLED or execution.claimed_at is None:
            release_slot(session, execution)
    return True


def fail_attempt(
    session: Session, execution: Execution, code: FailureCode, *conditions: ColumnElement[bool], **values: Any
) -> bool:
    """End the current attempt as failed; return False when nothing changed.

    The execution waits for its next attempt where its retries allow one, and has FAILED otherwise.
    """
    lock_project(session, execution.project_id)
    state = session.scalar(select(Execution.state).where(Execution.id == execution.id).with_for_update())
    if state is None:
        return False
    session.refresh(execution)
    is_attempted = get_next_state(State(state), Trigger.POSTPONE) is not None
    if not (is_attempted and has_retry(execution, code) and _is_enabled(session, execution)):
        return move(session, execution, Trigger.FAIL, *conditions, error_code=code, **values)
    ended = {"completed_at": now(), **values, "error_code": code}
    if not execute_update(session, update(Execution).where(Execution.id == execution.id, *conditions).values(ended)):
        return False
    session.refresh(execution)
    store_bill(session, execution)
    session.add(build_attempt(execution, State.FAILED))
    _withdraw_launch(session, execution)
    is_retry = code is not FailureCode.STOPPED
    following = {
        "retries": execution.retries + is_retry,
        "retry_at": now() + (compute_pause(execution) if is_retry else timedelta()),
    }
    move(session, execution, Trigger.POSTPONE, **(get_values_of_next(execution) | following))
    release_slot(session, execution)
    return True


def cancel_all(session: Session, condition: ColumnElement[bool], sentence: str) -> None:
    """Cancel the executions that meet the condition and have not ended, the newest first.

    In this order no queued execution is admitted just before it is cancelled.
    """
    query = select(Execution).where(condition, Execution.state.in_(get_sources(Trigger.CANCEL)))
    for execution in session.scalars(query.order_by(Execution.id.desc())).all():
        move(session, execution, Trigger.CANCEL, error_message=sentence, error_code=FailureCode.CANCELLED)


def release_slot(session: Session, execution: Execution, *conditions: ColumnElement[bool]) -> bool:
    """Free the execution's slot and admit the next queued one; return False without a slot, or unless conditions hold.

    The caller has locked the project.
    """
    held = (Execution.id == execution.id, Execution.holds_slot, *conditions)
    values = {"holds_slot": False, "updated_at": Execution.updated_at}
    if not execute_update(session, update(Execution).where(*held).values(values)):
        return False
    _add_to_active(session, -1, Project.id == execution.project_id)
    _admit_next(session, execution.project_id)
    return True


def end_executions(session: Session, condition: ColumnElement[bool], sentence: str) -> None:
    """Cancel the executions, which are about to be deleted, and free the slots of those whose drivers are ending."""
    cancel_all(session, condition, sentence)
    for execution in session.scalars(select(Execution).where(condition, Execution.holds_slot)).all():
        release_slot(session, execution)


def take_slot_or_queue(session: Session, execution: Execution, queue: bool) -> State:
    """Return PENDING after taking a slot, or QUEUED where there is no room and `queue` is set; raise TooMany otherwise.

    Room is a slot of the project and of the organization, and a place in each of the execution's pools.
    """
    lock_project(session, execution.project_id)
    full = _take_slot(session, execution)
    if not full:
        return State.PENDING
    if not queue and full == [PROJECT]:
        sentence = f"This project has {MAX_CONCURRENT_EXECUTIONS} executions, the limit. Try again when one has ended."
        raise TooMany(sentence, RETRY_AFTER_SECONDS, code="execution-limit")
    if not queue and ORGANIZATION in full:
        sentence = "The organization has as many executions as it may have at once. Try again when one has ended."
        raise TooMany(sentence, RETRY_AFTER_SECONDS, code="execution-limit")
    if not queue:
        names = ", ".join(f"'{name}'" for name in full)
        sentence = f"No place is free in these pools: {names}. Try again when an execution has ended."
        raise TooMany(sentence, RETRY_AFTER_SECONDS, code="pool-limit")
    queued = session.scalar(select(func.count()).where(Execution.project_id == execution.project_id, QUEUED)) or 0
    if queued >= MAX_QUEUED_EXECUTIONS:
        sentence = f"This project has {MAX_QUEUED_EXECUTIONS} queued executions, the limit. Try again later."
        raise TooMany(sentence, RETRY_AFTER_SECONDS, code="queue-limit")
    return State.QUEUED


def admit(session: Session, execution_id: str) -> bool:
    """Launch a queued execution; return False when it has no room any more, or is not queued."""
    project_id = session.scalar(select(Execution.project_id).where(Execution.id == execution_id))
    if project_id is None:
        return False
    lock_project(session, project_id)
    execution = session.get(Execution, execution_id, populate_existing=True)
    if execution is None or execution.state != State.QUEUED or _take_slot(session, execution):
        return False
    if move(session, execution, Trigger.ADMIT, retry_at=None):
        enqueue_launch(session, execution)
    return True


def enqueue_launch(session: Session, execution: Execution) -> None:
    """Let the launcher start the execution's current attempt once this transaction is committed.

    Where a Dagster run waits to claim it, the launcher starts another one only after the end of that run.
    """
    launched = {"dagster_run_id": execution.run_id, "processed_at": now()} if execution.run_id else {}
    session.add(OutboxMessage(execution_id=execution.id, attempt=execution.attempt, **launched))


def _touch_job_and_task(session: Session, execution: Execution) -> None:
    """Set the time of update of the job and the task whose status is this execution's."""
    changed = {"updated_at": execution.updated_at}
    newest = (Job.id == execution.job_id, Job.latest_execution_id == execution.id)
    session.execute(update(Job).where(*newest).values(changed))
    bound = (Task.id == execution.task_id, Task.execution_id == execution.id)  # or it was started again since
    session.execute(update(Task).where(*bound).values(changed))


def _withdraw_launch(session: Session, execution: Execution) -> None:
    waiting = (OutboxMessage.execution_id == execution.id, OutboxMessage.processed_at.is_(None))
    execute_update(session, update(OutboxMessage).where(*waiting).values(processed_at=now()))


def _is_enabled(session: Session, execution: Execution) -> bool:
    """Return whether job and project may still be executed."""
    query = select(Job.enabled, Project.enabled).join(Project, Project.id == Job.project_id)
    return all(session.execute(query.where(Job.id == execution.job_id)).one())


def _admit_next(session: Session, project_id: str) -> None:
    """Launch the project's next queued execution that has room.

    One that shares its room with other projects is left to the launcher: they take turns in pools and wait in order for
    their organization, and this transaction may hold the locks of further projects.
    """
    waiter = next(iter(list_waiters(session, Execution.project_id == project_id)), None)
    if waiter is not None and not waiter.shares:
        admit(session, waiter.id)


def _take_slot(session: Session, execution: Execution) -> list[str]:
    """Take a slot by one conditional UPDATE, so that simultaneous submits never exceed the limit.

    Return what has no room, PROJECT, ORGANIZATION or names of pools; then nothing is taken. A new execution finds no
    room in what is left for queued ones.
    """
    active = session.scalar(select(Project.active_executions).where(Project.id == execution.project_id)) or 0
    if active >= MAX_CONCURRENT_EXECUTIONS:
        return [PROJECT]
    lock_pools(session, execution)
    others: list[Waiter] = []
    if execution.state != State.QUEUED:
        organization = Execution.organization_id == execution.organization_id
        others = list_waiters(
            session, organization if execution.pools else Execution.project_id == execution.project_id
        )
    if full := [*find_full_pools(session, execution, others), *find_full_organization(session, execution)]:
        return full
    most = MAX_CONCURRENT_EXECUTIONS - sum(each.project_id == execution.project_id for each in others)
    if not _add_to_active(session, 1, Project.id == execution.project_id, Project.active_executions < most):
        return [PROJECT]
    note_turns(session, execution)
    return []


def _add_to_active(session: Session, number: int, *conditions: ColumnElement[bool]) -> bool:
    values = {"active_executions": Project.active_executions + number, "updated_at": Project.updated_at}
    return bool(execute_update(session, update(Project).where(*conditions).values(values)))
