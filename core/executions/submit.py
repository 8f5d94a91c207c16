"""Submitting: everything that an execution will need is checked and frozen before it is accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlalchemy.orm import Session

from core.agents.validation import describe_problems
from core.credentials.repository import Credentials, inject, named
from core.datasets.repository import DatasetRepository
from core.errors import Conflict
from core.events.announce import announce
from core.executions.parameters import INPUTS, Value, built_in, resolve, row_limit
from core.executions.places import inputs, output_name
from core.executions.slots import place
from core.executions.states import Event, State
from core.executions.transitions import launch, move
from core.infra.database import Database
from core.infra.encryption import KeyRing
from core.infra.idempotency import IdempotencyKey, earlier, remember
from core.jobs.repository import JobRepository
from core.projects.repository import ProjectRepository
from core.python_extensions.repository import PythonExtensionRepository
from core.tables import Agent, Execution, Job, Project, Task, new_id, now
from core.tasks.repository import TaskRepository
from pipelines.errors import PipelineError
from pipelines.pipeline import Pipeline
from pipelines.transforms.transform import Transforms

PYTHON_AGENT = "The agent of this job holds Python code, which cannot be executed yet. Give it a pipeline in YAML."


@dataclass(frozen=True, slots=True)
class Request:
    """What an execute call asks for beside the job."""

    parameters: Mapping[str, object]
    arguments: Sequence[str]
    limit: int | None
    environment: Mapping[str, str]
    key_ring: KeyRing
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
) -> Execution:
    """Accepts an execution: its slot, its task, its launch and its idempotency record are one transaction.

    The credentials are those with the given ids, else those that the job names, else the organization's and global
    ones. With `task_id` it is a run of that task, which must not be running; otherwise it makes a task of its own.
    With `queue` it waits in order where the project has no slot free.

    Raises NotFound for the job, Conflict when it cannot be executed as it is, BadInput for an unknown credential and
    listing every parameter that is missing, TooMany when the project has ten executions already, or a full queue.
    """
    request = Request(parameters or {}, arguments, limit, environment or {}, key_ring, credential_ids)
    with database.read() as session:  # parsing a pipeline takes longer than SQLite's one writer should be held
        started = earlier(session, idempotency_key) if idempotency_key else None
        if started is not None:
            return _started(session, started)
        frozen = _freeze(session, organization_id, project_id, job_id, request)
    with database.write() as session:
        started = remember(session, idempotency_key, frozen.id) if idempotency_key else frozen.id
        if started != frozen.id:
            return _started(session, started)
        JobRepository(session, organization_id).get(project_id, job_id)
        frozen.state = place(session, project_id, queue)
        tasks = TaskRepository(session, organization_id)
        task = tasks.get_startable(project_id, job_id, task_id) if task_id is not None else None
        return _accept(session, frozen, task)


def _started(session: Session, execution_id: str) -> Execution:
    """What an earlier call with the same Idempotency-Key has started."""
    execution = session.get(Execution, execution_id)
    if execution is None:
        raise Conflict("What this Idempotency-Key has started was deleted since. Use a new key.")
    return execution


def _freeze(session: Session, organization_id: str, project_id: str, job_id: str, request: Request) -> Execution:
    """The execution as it will be stored, from the job and its agent as they are now."""
    project = ProjectRepository(session, organization_id).get(project_id)
    job = JobRepository(session, organization_id).get(project_id, job_id)
    agent = _agent(session, job)
    execution = Execution(
        id=new_id(),
        organization_id=organization_id,
        project_id=project_id,
        job_id=job_id,
        job_name=job.name,
        agent_id=agent.id,
        agent_revision=agent.revision,
        pipeline_yaml=agent.pipeline_yaml or "",
        row_limit=row_limit(request.limit, request.parameters),
    )
    credentials = Credentials(session, organization_id).chosen(request.credential_ids or named(job), request.key_ring)
    inject(execution, credentials, request.key_ring)
    for field, value in _planned(session, execution, job, project, request).items():
        setattr(execution, field, value)
    return execution


def _agent(session: Session, job: Job) -> Agent:
    if not job.enabled:
        raise Conflict("This job is disabled. Enable it to execute it.")
    agent = session.get(Agent, job.agent_id) if job.agent_id else None
    if agent is None:
        raise Conflict("This job has no agent. Set its agentId to one that has a pipeline.")
    if not agent.enabled:
        raise Conflict("The agent of this job is disabled. Enable it to execute the job.")
    if agent.pipeline_yaml is None and agent.code is None:
        raise Conflict("The agent of this job has no pipeline. Write its pipelineYaml.")
    return agent


def _planned(
    session: Session, execution: Execution, job: Job, project: Project, request: Request
) -> Mapping[str, object]:
    """What planning the pipeline with its parameters tells: the parameters, what it reads and where it writes."""
    if not execution.pipeline_yaml:
        return {"parameters": {}, "inputs": {}}
    try:
        pipeline = Pipeline.from_yaml(execution.pipeline_yaml)
        values = _values(session, pipeline, execution, job, project, request)
        transforms = PythonExtensionRepository(session, job.organization_id).load_row_transforms(execution.agent_id)
        plan = pipeline.plan(parameters=values, transforms=Transforms(transforms))
    except PipelineError as error:
        raise describe_problems(error) from error
    return {
        "parameters": values,
        "row_transforms": transforms,
        "inputs": inputs(session, project, plan),
        "output_name": output_name(session, project, plan.output.path),
        "output_mode": plan.output.mode.value,
    }


def _values(
    session: Session, pipeline: Pipeline, execution: Execution, job: Job, project: Project, request: Request
) -> dict[str, Value]:
    names, dataset_id = pipeline.parameters, job.input_dataset_id
    datasets = DatasetRepository(session, job.organization_id)
    source = datasets.get(dataset_id) if dataset_id and names & set(INPUTS) else None
    return resolve(
        names,
        parameters=request.parameters,
        arguments=request.arguments,
        job=job,
        project=project,
        credentials=execution.credentials,
        built_in=built_in(names, execution_id=execution.id, job=job, project=project, source=source, at=now()),
        environment=request.environment,
    )


def _accept(session: Session, execution: Execution, task: Task | None) -> Execution:
    """Stores the execution with its task, what is told of it, and its launch unless it waits for a slot."""
    name = f"{execution.job_name} #{_number(session, execution)}"
    task = task or Task(organization_id=execution.organization_id, job_id=execution.job_id, name=name)
    task.execution_id = execution.id
    session.add(task)
    session.flush()
    execution.task_id = task.id
    session.add(execution)
    session.flush()
    announce(session, execution)
    if not execution.pipeline_yaml:
        move(session, execution, Event.FAIL, error_message=PYTHON_AGENT)
    elif execution.state == State.PENDING:
        launch(session, execution)
    return execution


def _number(session: Session, execution: Execution) -> int:
    """The execution's number within its job; Conflict when the job has become another since it was read."""
    same = (Job.id == execution.job_id, Job.enabled, Job.agent_id == execution.agent_id)
    counted = (
        update(Job)
        .where(*same)
        .values(execution_count=Job.execution_count + 1, latest_execution_id=execution.id, updated_at=Job.updated_at)
    )
    returned = counted.returning(Job.execution_count)
    number = session.scalar(returned, execution_options={"synchronize_session": False})
    if number is None:
        raise Conflict("The job was changed while it was being executed. Try again.")
    return number
