"""Accepting executions: new ones, and new attempts of failed ones. All that they need later is checked and frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from core.data.datasets.repository import DatasetRepository
from core.definitions.agents.validation import describe_problems
from core.definitions.credentials.repository import CredentialRepository, freeze_environment, get_job_credential_ids
from core.definitions.jobs.obstacles import (
    DISABLED_AGENT,
    DISABLED_JOB,
    DISABLED_PROJECT,
    NO_AGENT,
    NO_PIPELINE,
    PYTHON_AGENT,
)
from core.definitions.jobs.repository import JobRepository
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.errors import Conflict, Unavailable
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.idempotency import IdempotencyKey, find_result, store_result
from core.infra.repository import lock_project
from core.lifecycle.executions.attempts import INITIAL_VALUES, build_attempt
from core.lifecycle.executions.events import record_state
from core.lifecycle.executions.outputs import find_current, freeze_outputs
from core.lifecycle.executions.parameters import (
    INPUT_NAMES,
    Value,
    get_built_in,
    parse_row_limit,
    resolve_parameters,
    select_positional,
)
from core.lifecycle.executions.paths import record_reads, resolve_inputs
from core.lifecycle.executions.repository import ExecutionRepository
from core.lifecycle.executions.retries import FailureCode
from core.lifecycle.executions.states import Trigger, get_next_state
from core.lifecycle.executions.transitions import enqueue_launch, move, take_slot_or_queue
from core.lifecycle.tasks.repository import TaskRepository
from core.tables import Agent, Execution, Job, Project, Task, new_id, now
from core.tables.states import State
from pipelines.errors import PipelineError
from pipelines.filesystem import is_bucket_variable
from pipelines.language.formats import Mode, list_format_libraries
from pipelines.pipeline import Pipeline
from pipelines.planning.context import OUTPUT
from pipelines.planning.plan import Plan
from pipelines.spark.jars import LibrariesMissing, require_jars
from pipelines.spark.libraries import find_missing_libraries
from pipelines.transforms.transform import Transforms


@dataclass(frozen=True, slots=True)
class ExecuteOptions:
    """The options of a request to execute a job."""

    key_ring: KeyRing
    parameters: Mapping[str, object]
    arguments: Sequence[str]
    limit: int | None
    environment: Mapping[str, str]
    credential_ids: Sequence[str]


def submit(
    database: Database,
    organization_id: str,
    project_id: str,
    job_id: str,
    *,
    key_ring: KeyRing,
    credential_ids: Sequence[str] = (),
    parameters: Mapping[str, object] | None = None,
    arguments: Sequence[str] = (),
    limit: int | None = None,
    environment: Mapping[str, str] | None = None,
    idempotency_key: IdempotencyKey | None = None,
    task_id: str | None = None,
    queue: bool = False,
    run_id: str | None = None,
    trigger: str = "rest",
    tick_at: datetime | None = None,
    on_accept: Callable[[Session, Execution], None] | None = None,
) -> Execution:
    """Accept an execution: its slot, its task, its launch and its idempotency record are one transaction.

    The credentials are those with the given ids, else those that the job names, else the organization's and global
    ones. With `task_id` it is a run of that task, which must not be running; otherwise it creates a task. With `queue`
    it waits for its turn where the project has no free slot. With `run_id` that Dagster run will claim it, so that no
    other run is launched. `trigger` and `tick_at` are what caused it, and `on_accept` is called in the transaction that
    stores it.

    Raises NotFound for the job, Conflict when it cannot be executed as it is, BadInput for an unknown credential and
    with every parameter that is missing, TooMany at the project's limit of executions, or with a full queue.
    """
    options = ExecuteOptions(key_ring, parameters or {}, arguments, limit, environment or {}, credential_ids)
    with database.read() as session:  # planning a pipeline takes longer than SQLite's only writer should be blocked
        started = find_result(session, idempotency_key) if idempotency_key else None
        if started is not None:
            return _load_started(session, started)
        execution = _freeze(session, organization_id, project_id, job_id, options)
    execution.trigger, execution.tick_at = trigger, tick_at
    with database.write() as session:
        started = store_result(session, idempotency_key, execution.id) if idempotency_key else execution.id
        if started != execution.id:
            return _load_started(session, started)
        JobRepository(session, organization_id).get(project_id, job_id)
        state = take_slot_or_queue(session, project_id, queue)
        execution.state, execution.holds_slot, execution.run_id = state, state.holds_slot, run_id
        tasks = TaskRepository(session, organization_id)
        task = tasks.get_startable(project_id, job_id, task_id) if task_id is not None else None
        _accept(session, execution, task)
        if on_accept is not None:
            on_accept(session, execution)
        return execution


def retry(
    database: Database,
    organization_id: str,
    project_id: str,
    job_id: str,
    execution_id: str,
    *,
    key_ring: KeyRing,
    idempotency_key: IdempotencyKey | None = None,
    queue: bool = False,
    run_id: str | None = None,
) -> Execution:
    """Begin the next attempt of a failed execution, with the pipeline and parameters that were frozen for it.

    It resumes after the last checkpoint of the earlier attempts. Credentials are read again. Reports of earlier
    attempts change nothing from here on, and the job's retries count from zero. With `queue` it waits
    where the project has no free slot, in the order in which the executions were accepted. With `run_id`
    that Dagster run will claim it, so that no other run is launched.

    Raises NotFound, Conflict when it has not failed or cannot be executed any more, BadInput for a credential that was
    deleted, TooMany at the project's limit of executions, or with a full queue.
    """
    with database.write() as session:
        execution = ExecutionRepository(session, organization_id).get(project_id, job_id, execution_id)
        lock_project(session, project_id)
        session.refresh(execution)
        if idempotency_key is not None:  # of two simultaneous calls the lock lets one pass first
            if find_result(session, idempotency_key) is not None:
                return execution
            store_result(session, idempotency_key, execution.id)
        state = State(execution.state)
        if get_next_state(state, Trigger.RETRY) is None:
            sentence = f"Only an execution that has failed can be retried; this one is {state.public}."
            raise Conflict(sentence, code="not-retryable")
        if not execution.pipeline_yaml:
            raise Conflict(PYTHON_AGENT, code="no-pipeline")
        if not ProjectRepository(session, organization_id).get(project_id).enabled:
            raise Conflict(DISABLED_PROJECT, code="disabled")
        if not JobRepository(session, organization_id).get(project_id, job_id).enabled:
            raise Conflict(DISABLED_JOB, code="disabled")
        # while the driver of a cancelled attempt is ending, its slot is still there
        queued = not execution.holds_slot and take_slot_or_queue(session, project_id, queue) is State.QUEUED
        credentials = CredentialRepository(session, organization_id)
        usual = [id_ for name, id_ in execution.credentials.items() if not is_bucket_variable(name)]
        chosen = credentials.select_for_execution(usual, key_ring) if usual else ()
        freeze_environment(execution, chosen, key_ring, credentials.select_bucket_sources(execution.credentials))
        trigger = Trigger.REQUEUE if queued else Trigger.RETRY
        session.add(build_attempt(execution, state))
        begun = INITIAL_VALUES | {"attempt": execution.attempt + 1, "retries": 0, "run_id": run_id}
        move(session, execution, trigger, **begun)
        if not queued:
            enqueue_launch(session, execution)
        return execution


def list_steps(plan: Plan) -> list[dict[str, str]]:
    """Return the plan's steps as an execution stores them: one for each step of its Dagster run, in order."""
    return [
        {
            "key": step.key,
            "title": step.title,
            "position": f"pass {number}, line {step.line}" if step.line else f"pass {number}",
        }
        for number, steps in enumerate(plan.iter_passes(), start=1)
        for step in steps
    ]


def _load_started(session: Session, execution_id: str) -> Execution:
    """Return the execution that an earlier call with the same Idempotency-Key has started."""
    execution = session.get(Execution, execution_id)
    if execution is None:
        raise Conflict("What this Idempotency-Key has started was deleted since. Use a new key.")
    return execution


def _freeze(session: Session, organization_id: str, project_id: str, job_id: str, options: ExecuteOptions) -> Execution:
    """Return the execution to store, made of the job and its agent as they are now."""
    project = ProjectRepository(session, organization_id).get(project_id)
    job = JobRepository(session, organization_id).get(project_id, job_id)
    if not project.enabled:
        raise Conflict(DISABLED_PROJECT, code="disabled")
    agent = _load_agent(session, job)
    execution = Execution(
        id=new_id(),
        organization_id=organization_id,
        project_id=project_id,
        job_id=job_id,
        job_name=job.name,
        agent_id=agent.id,
        agent_revision=agent.revision,
        pipeline_yaml=agent.pipeline_yaml or "",
        arguments=select_positional(options.arguments),
        row_limit=parse_row_limit(options.limit, options.parameters),
        max_retries=job.max_retries,
        retry_backoff_seconds=job.retry_backoff_seconds,
        timeout_seconds=job.timeout_seconds,
        retry_on=job.retry_on,
    )
    key_ring = options.key_ring
    ids = options.credential_ids or get_job_credential_ids(job)
    credentials = CredentialRepository(session, organization_id)
    chosen = credentials.select_for_execution(ids, key_ring)
    freeze_environment(execution, chosen, key_ring)
    plan, columns = _plan(session, execution, job, project, options)
    if plan is not None and (named := plan.bucket_credentials):  # the plan needs the variables of the first call
        freeze_environment(execution, chosen, key_ring, credentials.select_for_buckets(named))
    for column, value in columns.items():
        setattr(execution, column, value)
    return execution


def _load_agent(session: Session, job: Job) -> Agent:
    if not job.enabled:
        raise Conflict(DISABLED_JOB, code="disabled")
    agent = session.get(Agent, job.agent_id) if job.agent_id else None
    if agent is None:
        raise Conflict(NO_AGENT, code="no-agent")
    if not agent.enabled:
        raise Conflict(DISABLED_AGENT, code="disabled")
    if agent.pipeline_yaml is None and agent.code is None:
        raise Conflict(NO_PIPELINE, code="no-pipeline")
    return agent


def _plan(
    session: Session, execution: Execution, job: Job, project: Project, options: ExecuteOptions
) -> tuple[Plan | None, Mapping[str, Any]]:
    """Plan the pipeline with its parameters; return the plan and the columns that follow from it."""
    if not execution.pipeline_yaml:
        return None, {"parameters": {}, "inputs": {}, "steps": []}
    try:
        pipeline = Pipeline.from_yaml(execution.pipeline_yaml)
        values = _resolve_values(session, pipeline, execution, job, project, options)
        missing = pipeline.parameters - values.keys()
        if missing and not (options.credential_ids or get_job_credential_ids(job)):
            CredentialRepository(session, job.organization_id).check_keys(missing, options.key_ring)
        transforms = PythonExtensionRepository(session, job.organization_id).load_row_transforms(execution.agent_id)
        plan = pipeline.plan(parameters=values, transforms=Transforms(transforms))
    except PipelineError as error:
        raise describe_problems(error) from error
    inputs = resolve_inputs(session, project, plan)
    outputs = freeze_outputs(session, execution, project, plan)
    _check_modes(session, execution, outputs)
    return plan, {
        "parameters": values,
        "row_transforms": transforms,
        "inputs": inputs,
        "outputs": outputs,
        "libraries": _require_libraries(plan, inputs),
        "output_name": outputs[OUTPUT]["path"],
        "output_mode": plan.output.mode.value,
        "steps": list_steps(plan),
    }


def _require_libraries(plan: Plan, inputs: Mapping[str, Any]) -> list[str]:
    """Return the Java libraries of the stages, the output and the datasets that are read, fetched if need be.

    Raises Unavailable when they cannot be had.
    """
    read = (library for each in inputs.values() for library in list_format_libraries(each["format"]))
    libraries = sorted({*plan.libraries, *read})
    if problem := next(find_missing_libraries(plan), None):
        where = f"line {problem.line}" if problem.line else problem.path
        raise Unavailable(_make_sentence(problem.message), code="missing-libraries", path=where)
    try:
        require_jars(libraries)
    except LibrariesMissing as error:
        raise Unavailable(_make_sentence(str(error)), code="missing-libraries") from error
    return libraries


def _make_sentence(message: str) -> str:
    return f"{message[0].upper()}{message[1:]}."


def _check_modes(session: Session, execution: Execution, outputs: Mapping[str, Any]) -> None:
    """Raise Conflict for rows that the mode `error` protects; the driver looks again."""
    for name, written in outputs.items():
        if written["mode"] == Mode.ERROR and find_current(session, execution, written["path"]) is not None:
            where = f"line of '{name}'" if name else "output.mode"
            sentence = f"There are rows at '{written['path'] or execution.job_name}' already, and the mode is error."
            raise Conflict(sentence, code="output-exists", path=where)


def _resolve_values(
    session: Session, pipeline: Pipeline, execution: Execution, job: Job, project: Project, options: ExecuteOptions
) -> dict[str, Value]:
    names, dataset_id, source = pipeline.parameters, job.input_dataset_id, None
    if dataset_id and names & set(INPUT_NAMES):
        source = DatasetRepository(session, job.organization_id).get(dataset_id)
    built_in = get_built_in(names, execution_id=execution.id, job=job, project=project, source=source, at=now())
    return resolve_parameters(
        names,
        parameters=options.parameters,
        arguments=options.arguments,
        job=job,
        project=project,
        credentials=execution.credentials,
        built_in=built_in,
        environment=options.environment,
    )


def _accept(session: Session, execution: Execution, task: Task | None) -> Execution:
    """Store the execution with its task, its first event, and its launch unless it waits for a slot."""
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
        move(session, execution, Trigger.FAIL, error_message=PYTHON_AGENT, error_code=FailureCode.PIPELINE)
    elif execution.state == State.PENDING:
        enqueue_launch(session, execution)
    return execution


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
