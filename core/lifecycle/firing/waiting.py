"""Jobs of ticks that have not been submitted: because of other jobs of the tick, an earlier execution, or a crash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from core.definitions.schedules.models import ExecutionRequest
from core.errors import Conflict, DailyLimit, SpindleError
from core.infra.database import Database, execute_update
from core.infra.settings import Settings
from core.lifecycle.executions.transitions import lock_project
from core.lifecycle.submission.planning import SubmitRequest, plan_execution
from core.lifecycle.submission.submit import accept_execution
from core.tables import Execution, Schedule, ScheduleTick, TickJob, now
from core.tables.schedules import WAITING
from core.tables.states import TERMINAL, State

PAGE = 500
TRIES = 3  # at conflicts with a change of the job at the same time
FAILED_UPSTREAM = "It comes after '{}', which {}."

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Sibling:
    """Another job of the same tick, with the state of its execution."""

    name: str
    state: str
    execution_state: str | None

    @property
    def outcome(self) -> str | None:
        """How it failed; empty when its output can be read, None while that is open."""
        if self.state == "WAITING":
            return None
        if self.state != "SUBMITTED":
            return "was skipped" if self.state == "SKIPPED" else "could not be executed"
        if self.execution_state is None:
            return "was deleted"
        if self.execution_state == State.COMPLETED:
            return ""
        return "failed" if self.execution_state in TERMINAL else None


def submit_waiting(database: Database, settings: Settings) -> None:
    """Submit or skip every waiting job that need not wait any longer."""
    after = ""
    while True:
        with database.read() as session:
            query = select(TickJob).where(WAITING, TickJob.id > after).order_by(TickJob.id).limit(PAGE)
            rows = session.scalars(query).all()
            decisions = list(_decide(session, rows))
        for row, reason in decisions:
            _settle(database, settings, row, reason)
        if len(rows) < PAGE:
            return
        after = rows[-1].id


def submit_tick(database: Database, settings: Settings, tick_id: str) -> None:
    """Submit the jobs of this tick that need not wait."""
    with database.read() as session:
        query = select(TickJob).where(WAITING, TickJob.tick_id == tick_id).order_by(TickJob.id)
        decisions = list(_decide(session, session.scalars(query).all()))
    for row, reason in decisions:
        _settle(database, settings, row, reason)


def _decide(session: Session, rows: Sequence[TickJob]) -> Iterator[tuple[TickJob, str | None]]:
    """Yield the rows to submit, and those to skip with their reason."""
    siblings = _load_siblings(session, [row.tick_id for row in rows if row.after])
    queued = [row.job_id for row in rows if row.overlap == "queue"]
    running = set(session.scalars(_select_running(queued))) if queued else set[str]()
    oldest = _load_oldest(session, queued) if queued else {}
    for row in rows:
        upstream = [siblings[row.tick_id, job_id] for job_id in row.after if (row.tick_id, job_id) in siblings]
        failed = next((each for each in upstream if each.outcome), None)
        if failed is not None:
            yield row, FAILED_UPSTREAM.format(failed.name, failed.outcome)
        elif any(each.outcome is None for each in upstream):
            continue
        elif row.overlap != "queue" or (row.job_id not in running and oldest.get(row.job_id) == row.id):
            yield row, None


def _load_siblings(session: Session, tick_ids: Sequence[str]) -> Mapping[tuple[str, str], _Sibling]:
    if not tick_ids:
        return {}
    columns = (TickJob.tick_id, TickJob.job_id, TickJob.job_name, TickJob.state, Execution.state)
    query = select(*columns).outerjoin(Execution, Execution.id == TickJob.execution_id)
    rows = session.execute(query.where(TickJob.tick_id.in_(set(tick_ids))))
    return {(tick_id, job_id): _Sibling(*rest) for tick_id, job_id, *rest in rows}


def _select_running(job_ids: Sequence[str]) -> Select[tuple[str]]:
    return select(Execution.job_id).where(Execution.job_id.in_(job_ids), Execution.state.not_in(TERMINAL)).distinct()


def _load_oldest(session: Session, job_ids: Sequence[str]) -> Mapping[str, str]:
    """Return the waiting row of the oldest tick of every job."""
    query = select(TickJob.job_id, TickJob.id).join(ScheduleTick, ScheduleTick.id == TickJob.tick_id)
    rows = session.execute(
        query.where(TickJob.state == "WAITING", TickJob.job_id.in_(job_ids)).order_by(ScheduleTick.tick_at.desc())
    )
    return dict(rows.tuples().all())


def _settle(database: Database, settings: Settings, row: TickJob, reason: str | None) -> None:
    """Submit the row's job, or skip it for the reason."""
    if reason is not None:
        _close(database, row, "SKIPPED", reason, "upstream-failed")
        return
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            _submit(database, settings, row)
        except SpindleError as error:
            if error.retryable and not isinstance(error, DailyLimit):
                log.info("schedule waits", tick_job_id=row.id, reason=error.sentence)
                return
            code = error.details[0].code
            if not last and code == Conflict.default_code:
                continue
            _close(database, row, "REFUSED", error.sentence, code)
        return


def _submit(database: Database, settings: Settings, row: TickJob) -> None:
    """Store the execution and the row's new state in one transaction, unless another process has done both."""
    with database.read() as session:
        tick = session.get(ScheduleTick, row.tick_id)
        schedule = session.get(Schedule, tick.schedule_id) if tick else None
        if tick is None or schedule is None:  # it was deleted with its ticks
            return
        options = ExecutionRequest.from_json(schedule.execution_request_json)
        request = SubmitRequest(
            organization_id=schedule.organization_id,
            project_id=schedule.project_id,
            job_id=row.job_id,
            credential_ids=options.credential_ids,
            parameters={**(options.parameters or {}), **schedule.parameters},
            arguments=options.arguments or (),
            limit=options.limit,
            publish=options.publish,
            queue=True,
            trigger="schedule",
            tick_at=tick.tick_at,
            schedule_name=schedule.name or None,
        )
        planned = plan_execution(session, settings, request)
    with database.write() as session:
        lock_project(session, schedule.project_id)
        if _end_waiting(session, row, state="SUBMITTED", execution_id=planned.execution.id):
            accept_execution(session, planned)


def _close(database: Database, row: TickJob, state: str, reason: str, code: str) -> None:
    with database.write() as session:
        _end_waiting(session, row, state=state, reason=reason, code=code)


def _end_waiting(session: Session, row: TickJob, **values: str) -> bool:
    """Store the row's new state; return False when it does not wait any more."""
    waiting = (TickJob.id == row.id, TickJob.state == "WAITING")
    return bool(execute_update(session, update(TickJob).where(*waiting).values(**values, updated_at=now())))
