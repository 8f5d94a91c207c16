"""Operations on partitions and backfills: the launcher executes the partitions of a backfill one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.jobs.partitions import read_partitions
from core.definitions.jobs.repository import JobRepository
from core.errors import BadInput, Conflict, SpindleError
from core.infra.database import Database
from core.infra.repository import lock_project
from core.infra.settings import Settings
from core.lifecycle.backfills.models import MAX_BACKFILL_KEYS, BackfillCreate, BackfillProgress, PartitionRecord
from core.lifecycle.backfills.repository import BackfillRepository
from core.lifecycle.executions.organization_limits import is_day_over
from core.lifecycle.executions.transitions import cancel_all
from core.lifecycle.submission.planning import SubmitRequest, plan_execution
from core.lifecycle.submission.submit import accept_execution
from core.tables import Backfill, Execution, now
from core.tables.executions import RUNNING
from core.tables.states import TERMINAL, State

MAX_OPEN = 20  # executions of a backfill that have not ended: more than a project has slots
NOT_NOW = frozenset({"partition-running", Conflict.default_code})
CANCELLED = "The backfill was cancelled."

log = structlog.get_logger()


def list_partitions(
    session: Session, caller: Identity, project_id: str, job_id: str, state: str | None = None
) -> Sequence[PartitionRecord]:
    """Return the partitions of a job, or those in one state."""
    job = JobRepository(session, caller.organization_id).get(project_id, job_id)
    found = BackfillRepository(session, caller.organization_id).list_partitions(job, now())
    return [each for each in found if state is None or each.state == state]


def create(session: Session, caller: Identity, project_id: str, job_id: str, new: BackfillCreate) -> BackfillProgress:
    """Store a backfill, which the launcher begins. Raises BadInput for keys that the job has not, or for none."""
    job = JobRepository(session, caller.organization_id).get(project_id, job_id)
    partitions, at = read_partitions(job.partitions), now()
    if not partitions:
        raise BadInput("The job has no partitions.", code="unknown-partition", path="keys")
    if new.keys is not None and (new.from_ or new.to):
        raise BadInput("Give a range or keys, not both.", code="invalid-value", path="keys")
    if new.keys is None:
        keys = partitions.select_range(new.from_, new.to, at)
    else:
        keys = list(dict.fromkeys(new.keys))
        for key in keys:
            partitions.check_key(key, at, "keys")
    repository = BackfillRepository(session, caller.organization_id)
    if new.only is not None:
        states = {each.key: each.state for each in repository.list_partitions(job, at)}
        keys = [key for key in keys if states.get(key) == new.only.upper()]
    if not keys:
        sentence = "None of these partitions is " + (f"{new.only}." if new.only else "closed yet.")
        raise BadInput(sentence, code="unknown-partition", path="only" if new.only else "keys")
    if len(keys) > MAX_BACKFILL_KEYS:
        sentence = f"These are {len(keys):,} partitions, and a backfill executes {MAX_BACKFILL_KEYS:,} at most."
        raise BadInput(sentence, code="partition-limit", path="keys")
    backfill = Backfill(organization_id=job.organization_id, project_id=job.project_id, job_id=job.id, keys=keys)
    session.add(backfill)
    session.flush()
    return repository.load_progress(backfill)


def list_backfills(
    session: Session, caller: Identity, project_id: str, job_id: str, *, limit: int | None, before: str | None
) -> Sequence[BackfillProgress]:
    repository = BackfillRepository(session, caller.organization_id)
    return [repository.load_progress(each) for each in repository.list(project_id, job_id, limit=limit, before=before)]


def get(session: Session, caller: Identity, project_id: str, job_id: str, backfill_id: str) -> BackfillProgress:
    repository = BackfillRepository(session, caller.organization_id)
    return repository.load_progress(repository.get(project_id, job_id, backfill_id))


def cancel(session: Session, caller: Identity, project_id: str, job_id: str, backfill_id: str) -> BackfillProgress:
    """End a backfill and its executions; one that has ended stays as it is."""
    repository = BackfillRepository(session, caller.organization_id)
    backfill = repository.get(project_id, job_id, backfill_id)
    lock_project(session, project_id)
    session.refresh(backfill, with_for_update=True)
    if backfill.state == "RUNNING":
        backfill.state, backfill.completed_at = "CANCELLED", now()
        session.flush()
        cancel_all(session, Execution.backfill_id == backfill.id, CANCELLED)
    return repository.load_progress(backfill)


def advance_backfills(database: Database, settings: Settings) -> None:
    """Accept the next executions of all backfills into the queues of their projects, and end those that are done."""
    with database.read() as session:
        running = session.scalars(select(Backfill).where(RUNNING).order_by(Backfill.id)).all()
    for backfill in running:
        with database.read() as session:
            columns = select(Execution.partition, Execution.state).where(Execution.backfill_id == backfill.id)
            states = {key: State(state) for key, state in session.execute(columns) if key is not None}
            day_is_over = is_day_over(session, backfill.organization_id)
        room = MAX_OPEN - sum(state not in TERMINAL for state in states.values())
        waiting = [key for key in backfill.keys if key not in states and key not in backfill.refused]
        if not waiting and room == MAX_OPEN:
            _complete(database, backfill, states)
        for key in waiting:
            if room <= 0 or day_is_over:
                break
            try:
                room -= _accept(database, settings, backfill, key)
            except SpindleError as error:
                if error.retryable:
                    log.info("backfill waits", backfill_id=backfill.id, reason=error.sentence)
                    break
                if error.details[0].code == "disabled":  # the job, its agent or its project
                    break
                if error.details[0].code not in NOT_NOW:
                    _refuse(database, backfill, key, error.sentence)


def _accept(database: Database, settings: Settings, backfill: Backfill, key: str) -> bool:
    """Accept the execution of a key; return False where it has one, or the backfill has ended."""
    request = SubmitRequest(
        organization_id=backfill.organization_id,
        project_id=backfill.project_id,
        job_id=backfill.job_id,
        queue=True,
        trigger="backfill",
        partition=key,
        backfill_id=backfill.id,
    )
    with database.read() as session:
        planned = plan_execution(session, settings, request)
    with database.write() as session:
        lock_project(session, backfill.project_id)
        same = (Execution.backfill_id == backfill.id, Execution.partition == key)
        if not _lock_running(session, backfill) or session.scalar(select(Execution.id).where(*same)) is not None:
            return False
        accept_execution(session, planned)
        return True


def _refuse(database: Database, backfill: Backfill, key: str, sentence: str) -> None:
    with database.write() as session:
        if (row := _lock_running(session, backfill)) is not None:
            row.refused = {**row.refused, key: sentence}


def _complete(database: Database, backfill: Backfill, states: Mapping[str, State]) -> None:
    with database.write() as session:
        if (row := _lock_running(session, backfill)) is not None:
            failed = row.refused or any(state is not State.COMPLETED for state in states.values())
            row.state, row.completed_at = "FAILED" if failed else "COMPLETED", now()
            log.info("backfill ended", backfill_id=row.id, state=row.state)


def _lock_running(session: Session, backfill: Backfill) -> Backfill | None:
    return session.scalar(select(Backfill).where(Backfill.id == backfill.id, RUNNING).with_for_update())
