"""Accepting executions: new ones, and new attempts of failed ones."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from core.definitions.credentials.repository import CredentialRepository, freeze_environment
from core.definitions.jobs.obstacles import DISABLED_JOB, DISABLED_PROJECT, PYTHON_AGENT
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.repository import ProjectRepository
from core.errors import Conflict
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.idempotency import IdempotencyKey, find_result, store_result
from core.infra.repository import lock_project
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.lifecycle.executions.attempts import build_attempt, get_values_of_next
from core.lifecycle.executions.events import record_state
from core.lifecycle.executions.organization_limits import count_new
from core.lifecycle.executions.outputs import OTHER_PARTITIONS, has_other_partitions
from core.lifecycle.executions.paths import check_inputs, record_reads
from core.lifecycle.executions.permissions import check_permissions
from core.lifecycle.executions.repository import ExecutionRepository
from core.lifecycle.executions.retries import FailureCode
from core.lifecycle.executions.states import Trigger, get_next_state
from core.lifecycle.executions.transitions import enqueue_launch, move, take_slot_or_queue
from core.lifecycle.submission.given_rows import check_rows_kept
from core.lifecycle.submission.planning import PlannedExecution, SubmitRequest, load_started, plan_execution
from core.lifecycle.tasks.repository import TaskRepository
from core.tables import Execution, Job, Task, now
from core.tables.states import TERMINAL, State
from pipelines.filesystem import is_bucket_variable
from pipelines.login import LOGIN_VARIABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest:
    """A request for the next attempt of a failed execution; fields as in SubmitRequest."""

    organization_id: str
    project_id: str
    job_id: str
    execution_id: str
    key_ring: KeyRing | None = None
    queue: bool = False
    run_id: str | None = None
    idempotency_key: IdempotencyKey | None = None


def submit(database: Database, settings: Settings, request: SubmitRequest) -> Execution:
    """Plan an execution and accept it, for callers that store nothing else with it."""
    with database.read() as session:
        planned = plan_execution(session, settings, request)
    with database.write() as session:
        return accept_execution(session, planned)


def accept_execution(session: Session, planned: PlannedExecution) -> Execution:
    """Store a planned execution in the caller's transaction: its slot, its task, its launch and its idempotency record.

    Raises NotFound or Conflict when its job or task has changed since, TooMany where there is no room, with a full
    queue or beyond the organization's executions of a day, and Conflict beyond its storage.
    """
    request, execution = planned.request, planned.execution
    if not planned.is_new:
        return execution
    if request.idempotency_key is not None:
        started = store_result(session, request.idempotency_key, execution.id)
        if started != execution.id:
            return load_started(session, started)
    JobRepository(session, execution.organization_id).get(execution.project_id, execution.job_id)
    state = take_slot_or_queue(session, execution, request.queue)
    count_new(session, execution.organization_id)
    check_partition_free(session, execution)
    execution.state, execution.holds_slot = state, state.holds_slot
    task = None
    if request.task_id is not None:
        tasks = TaskRepository(session, execution.organization_id)
        task = tasks.get_startable(execution.project_id, execution.job_id, request.task_id)
    name = f"{execution.job_name} #{_count_execution(session, execution)}"
    task = task or Task(organization_id=execution.organization_id, job_id=execution.job_id, name=name)
    task.execution_id = execution.id
    session.add(task)
    session.flush()
    execution.task_id = task.id
    session.add(execution)
    session.flush()
    record_reads(session, execution)
    record_state(session, execution)
    if not execution.pipeline_yaml:
        sentence = planned.fault or PYTHON_AGENT
        move(session, execution, Trigger.FAIL, error_message=sentence, error_code=FailureCode.PIPELINE)
    elif execution.state == State.PENDING:
        enqueue_launch(session, execution)
    return execution


def retry(session: Session, settings: Settings, request: RetryRequest) -> Execution:
    """Begin the next attempt of a failed execution, with the pipeline and parameters that were frozen for it.

    It resumes after the last checkpoint of the earlier attempts. Credentials are read again. Reports of earlier
    attempts change nothing from here on, and the job's retries count from zero. One that is queued waits for a slot in
    the order in which the executions were accepted.

    Raises NotFound, Conflict when it has not failed, cannot be executed any more, has what the operator has forbidden
    since, or reads a version that was removed, BadInput for a credential that was deleted, TooMany at the project's
    limit of executions, or with a full queue.
    """
    organization_id, project_id = request.organization_id, request.project_id
    execution = ExecutionRepository(session, organization_id).get(project_id, request.job_id, request.execution_id)
    lock_project(session, project_id)
    session.refresh(execution)
    if request.idempotency_key is not None:  # of two simultaneous calls the lock lets one pass first
        if find_result(session, request.idempotency_key) is not None:
            return execution
        store_result(session, request.idempotency_key, execution.id)
    state = State(execution.state)
    if get_next_state(state, Trigger.RETRY) is None:
        sentence = f"Only an execution that has failed can be retried; this one is {state.public}."
        raise Conflict(sentence, code="not-retryable")
    if not execution.pipeline_yaml:
        raise Conflict(PYTHON_AGENT, code="no-pipeline")
    if not ProjectRepository(session, organization_id).get(project_id).enabled:
        raise Conflict(DISABLED_PROJECT, code="disabled")
    if not JobRepository(session, organization_id).get(project_id, request.job_id).enabled:
        raise Conflict(DISABLED_JOB, code="disabled")
    if has_other_partitions(session, execution):
        raise Conflict(f"{OTHER_PARTITIONS} Execute the job.", code="not-retryable")
    check_permissions(session, settings, execution)
    check_inputs(session, execution)
    check_rows_kept(settings, execution)
    check_partition_free(session, execution)
    # while the driver of a cancelled attempt is ending, its slot is still there
    queued = not execution.holds_slot and take_slot_or_queue(session, execution, request.queue) is State.QUEUED
    key_ring = request.key_ring or KeyRing(load_service_key(settings))
    credentials = CredentialRepository(session, organization_id)
    own = {*filter(is_bucket_variable, execution.credentials), LOGIN_VARIABLE}
    usual = [id_ for name, id_ in execution.credentials.items() if name not in own]
    chosen = credentials.select_for_execution(usual, key_ring) if usual else ()
    login_id, buckets = execution.credentials.get(LOGIN_VARIABLE), execution.credentials
    login = credentials.get_enabled(login_id) if login_id else None
    freeze_environment(execution, chosen, key_ring, credentials.select_bucket_sources(buckets), login)
    trigger = Trigger.REQUEUE if queued else Trigger.RETRY
    session.add(build_attempt(execution, state))
    begun = get_values_of_next(execution) | {"retries": 0, "run_id": request.run_id}
    move(session, execution, trigger, **begun)
    if not queued:
        enqueue_launch(session, execution)
    return execution


def check_partition_free(session: Session, execution: Execution) -> None:
    """Raise Conflict while another execution of the partition has not ended; the caller has locked the project."""
    if execution.partition is None:
        return
    same = (Execution.job_id == execution.job_id, Execution.partition == execution.partition)
    query = select(Execution.id).where(*same, Execution.id != execution.id, Execution.state.not_in(TERMINAL))
    if (other := session.scalar(query.limit(1))) is not None:
        sentence = f"The partition '{execution.partition}' has an execution that has not ended: {other}."
        raise Conflict(sentence, code="partition-running", path="partition")


def _count_execution(session: Session, execution: Execution) -> int:
    """Return the execution's number within its job; raise Conflict when the job has changed since it was read."""
    values = {
        "execution_count": Job.execution_count + 1,
        "latest_execution_id": execution.id,
        "updated_at": now(),
    }
    unchanged = (Job.id == execution.job_id, Job.enabled, Job.agent_id == execution.agent_id)
    statement = update(Job).where(*unchanged).values(values).returning(Job.execution_count)
    number = session.scalar(statement, execution_options={"synchronize_session": False})
    if number is None:
        raise Conflict("The job was changed while it was being executed. Try again.")
    return number
