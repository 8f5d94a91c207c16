"""Planning of executions: all that one needs later is checked, and frozen from the job and its agent as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy.orm import Session

from core.data.datasets.repository import DatasetRepository
from core.definitions.agents.package_locks import check_allowed, check_execution
from core.definitions.agents.python_code import run_code
from core.definitions.agents.validation import describe_problems
from core.definitions.credentials.repository import CredentialRepository, freeze_environment, get_job_credential_ids
from core.definitions.jobs.obstacles import DISABLED_AGENT, DISABLED_JOB, DISABLED_PROJECT, NO_AGENT, NO_PIPELINE
from core.definitions.jobs.partitions import SEPARATOR, Partitions, make_partition_columns, read_partitions
from core.definitions.jobs.repository import JobRepository
from core.definitions.library_versions.service import select_build
from core.definitions.plugins.scope import load_scope
from core.definitions.projects.repository import ProjectRepository
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.errors import BadInput, Conflict, Detail, Unavailable
from core.infra.encryption import KeyRing
from core.infra.idempotency import IdempotencyKey, find_result
from core.infra.secrets import load_service_key
from core.infra.settings import Settings
from core.lifecycle.executions.outputs import find_current, freeze_outputs
from core.lifecycle.executions.parameters import (
    INPUT_NAMES,
    Value,
    get_allowed_environment,
    get_built_in,
    list_given_names,
    parse_row_limit,
    resolve_parameters,
    select_positional,
)
from core.lifecycle.executions.paths import check_rejected_path, narrow_inputs, resolve_inputs
from core.lifecycle.executions.permissions import NO_SCRIPTS, may_run_scripts
from core.lifecycle.executions.pod_options import choose_pods
from core.lifecycle.submission.given_rows import freeze_rows
from core.lifecycle.submission.uploaded_plugins import freeze_plugins
from core.tables import Agent, DatasetVersion, Execution, Job, Project, new_id, now
from core.tables.executions import FrozenBuild, FrozenInput, FrozenOutput, FrozenPages
from core.tables.states import State
from driver.protocol import PARTITIONS_PROTOCOL, TABLE_PARTITIONS_PROTOCOL, TRIALS_PROTOCOL
from pipelines.contract.request import OUTPUT, PlannedStep
from pipelines.errors import PipelineError, Problem
from pipelines.language.engines import LOADED_BYTES, EngineName
from pipelines.language.formats import TABLE_FORMATS, Mode, list_format_libraries
from pipelines.language.parameters import find_unknown_parameters
from pipelines.local.engine_choice import choose_engine, find_engine_conflict
from pipelines.pipeline import Pipeline
from pipelines.planning.notebook import read_notebook
from pipelines.planning.partition import add_partition
from pipelines.planning.plan import Plan
from pipelines.planning.script_reader import read_packages
from pipelines.requirements import find_missing_libraries
from pipelines.spark.jars import LibrariesMissing, require_jars
from pipelines.stages.load import LoadJson, LoadParquet
from pipelines.transforms.transform import Transforms


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """A request to execute a job.

    The credentials are those with the given ids, else those that the job names, else the organization's and global
    ones; `key_ring` has the caller's own key, where there is one. With `task_id` it is a run of that task, which must
    not be running; otherwise it creates a task. With `queue` it waits for its turn where the project has no free slot.
    With `run_id` that Dagster run will claim it, so that no other run is launched. `trigger`, `tick_at` and
    `schedule_name` are what caused it. `publish` is whether its rows become those of the job's table, by default as the
    job says. `partition` is the key of the part of the dataset that it makes. With `pages_of` it has the stored pages
    of that earlier execution, and requests none. `rows` are those that load_rows begins with.
    """

    organization_id: str
    project_id: str
    job_id: str
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    arguments: Sequence[str] = ()
    limit: int | None = None
    publish: bool | None = None
    credential_ids: Sequence[str] = ()
    key_ring: KeyRing | None = None
    task_id: str | None = None
    queue: bool = False
    pages_of: str | None = None
    rows: Sequence[object] | None = None
    run_id: str | None = None
    trigger: str = "rest"
    tick_at: datetime | None = None
    schedule_name: str | None = None
    partition: str | None = None
    backfill_id: str | None = None
    idempotency_key: IdempotencyKey | None = None


@dataclass(frozen=True, slots=True)
class PlannedExecution:
    """The execution of a request: a new one that is not stored, or that of an earlier request with its key.

    One without a pipeline, for its agent's Python code gave none, fails with the `fault`.
    """

    request: SubmitRequest
    execution: Execution
    is_new: bool
    fault: str | None = None


def plan_execution(session: Session, settings: Settings, request: SubmitRequest) -> PlannedExecution:
    """Plan the execution of a request, in a session that only reads: planning takes long for SQLite's only writer.

    Raises NotFound for the job, Conflict when it cannot be executed as it is, BadInput for an unknown credential and
    with every parameter that is missing, TooMany while too many agents' codes run.
    """
    started = find_result(session, request.idempotency_key) if request.idempotency_key else None
    if started is not None:
        return PlannedExecution(request, load_started(session, started), is_new=False)
    project = ProjectRepository(session, request.organization_id).get(request.project_id)
    job = JobRepository(session, request.organization_id).get(request.project_id, request.job_id)
    if not project.enabled:
        raise Conflict(DISABLED_PROJECT, code="disabled")
    choose_pods(settings, job.parameters, project.parameters)
    agent = _load_agent(session, job)
    build = select_build(session, settings, job.parameters, project.parameters)
    publishes = job.publish if request.publish is None else request.publish
    if not publishes:
        _check_protocol(build, TRIALS_PROTOCOL, "always publishes")
    partitions = read_partitions(job.partitions)
    partition = choose_partition(partitions, request, max(now(), request.tick_at or now()))
    if partition is not None:
        request = replace(request, parameters={**request.parameters, **partitions.split(partition)})
        _check_protocol(build, PARTITIONS_PROTOCOL, "knows no partitions")
    arguments = select_positional(request.arguments)
    pipeline, fault = _find_pipeline(session, settings, agent, arguments)
    execution = Execution(
        id=new_id(),
        organization_id=request.organization_id,
        project_id=project.id,
        job_id=job.id,
        job_name=job.name,
        agent_id=agent.id,
        agent_revision=agent.revision,
        pipeline_yaml=pipeline,
        arguments=arguments if agent.code is None else [],  # Python has used them
        package_lock=agent.package_lock,
        engine_build=build,
        row_limit=parse_row_limit(request.limit, request.parameters),
        publishes=publishes,
        pages_of=_freeze_pages(session, request),
        **job.copy_frozen_fields(),
        driver_reuse=job.driver_reuse and project.driver_reuse,
        run_id=request.run_id,
        trigger=request.trigger,
        tick_at=request.tick_at,
        schedule_name=request.schedule_name,
        partition=partition,
        partition_scheme=partitions.scheme if partition is not None else None,
        backfill_id=request.backfill_id,
    )
    _Planner(session, settings, request, project, job, execution).plan()
    return PlannedExecution(request, execution, is_new=True, fault=fault)


def _check_protocol(build: FrozenBuild | None, protocol: int, fault: str) -> None:
    """Raise Conflict for a build of the engine whose drivers are older than a number of the protocol."""
    if build is not None and (build.protocol or 0) < protocol:
        raise Conflict(f"Version {build.version} of the engine {fault}. Choose a newer one.", code="old-engine")


def choose_partition(partitions: Partitions, request: SubmitRequest, at: datetime) -> str | None:
    """Return the key of the partition that a request means; None for a job without partitions. Raise BadInput.

    A schedule means the period that has just closed, of the value that its parameters give. Others name the key, or
    give all of its parameters.
    """
    key, parameters = request.partition, request.parameters
    if not partitions:
        if key is not None:
            raise BadInput("The job has no partitions.", code="unknown-partition", path="partition")
        return None
    if key is None and request.tick_at is not None:
        closed = [
            each
            for each in partitions.list_closed(request.tick_at)
            if all(str(parameters.get(name, value)) == value for name, value in partitions.split(each).items())
        ]
        key = closed[0] if len(closed) == 1 else None
    key = key or partitions.join(parameters)
    if key is None:
        names = SEPARATOR.join(partitions.parameters)
        sentence = f"The job has partitions, and an execution makes one of them: give its key {names} as 'partition'."
        raise BadInput(sentence, code="partition-required", path="partition")
    partitions.check_key(key, at)
    for name, value in partitions.split(key).items():
        if str(parameters.get(name, value)) != value:
            sentence = f"The parameter {name} has another value than in the partition '{key}'."
            raise BadInput(sentence, code="invalid-value", path=f"parameters.{name}")
    return key


def _freeze_pages(session: Session, request: SubmitRequest) -> FrozenPages | None:
    """Return the pages of the earlier execution of the organization that the request names.

    Raises BadInput for an unknown one, and Conflict for one that has not ended.
    """
    if request.pages_of is None:
        return None
    earlier = session.get(Execution, request.pages_of)
    if earlier is None or earlier.organization_id != request.organization_id:
        sentence = "There is no execution with this id."
        raise BadInput(sentence, [Detail("pagesOf", sentence, "unknown-execution")])
    if not State(earlier.state).terminal:
        sentence = f"Execution {earlier.id} has not ended: its pages can be used when it has."
        raise Conflict(sentence, code="not-ended", path="pagesOf")
    return FrozenPages(earlier.id, earlier.attempt, earlier.completed_at or earlier.updated_at)


def load_started(session: Session, execution_id: str) -> Execution:
    """Return the execution that an earlier request with the same Idempotency-Key has started."""
    execution = session.get(Execution, execution_id)
    if execution is None:
        raise Conflict("What this Idempotency-Key has started was deleted since. Use a new key.")
    return execution


def list_steps(plan: Plan) -> list[PlannedStep]:
    """Return the plan's steps as an execution stores them: one for every step of its Dagster run, in order."""
    script = plan.find_script()
    return [
        PlannedStep(step.key, step.title, number, step.line, script is not None and step.key == script.key)
        for number, steps in enumerate(plan.iter_passes(), start=1)
        for step in steps
    ]


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


def _find_pipeline(
    session: Session, settings: Settings, agent: Agent, arguments: Sequence[str]
) -> tuple[str, str | None]:
    """Return the pipeline of an agent, or an empty text and the reason why its Python code gives none.

    A code that has given one without arguments is run again when there are some.
    """
    if agent.code is None or (agent.pipeline_yaml is not None and not arguments):
        return agent.pipeline_yaml or "", None
    code = read_notebook(agent.code) or agent.code
    try:
        check_allowed(session, settings.plugins, read_packages(code))
        return run_code(settings, agent.organization_id, code, arguments, agent.package_lock), None
    except PipelineError as error:
        return "", _make_sentence(str(error))


@dataclass(frozen=True, slots=True)
class _Planner:
    """Plans the pipeline of one new execution, and sets the fields that follow from its credentials and its plan."""

    session: Session
    settings: Settings
    request: SubmitRequest
    project: Project
    job: Job
    execution: Execution

    def plan(self) -> None:
        execution = self.execution
        key_ring = self.request.key_ring or KeyRing(load_service_key(self.settings))
        credentials = CredentialRepository(self.session, execution.organization_id)
        named = self.request.credential_ids or get_job_credential_ids(self.job)
        chosen = credentials.select_for_execution(named, key_ring)
        freeze_environment(execution, chosen, key_ring)
        if not execution.pipeline_yaml:
            return
        try:
            plugins = load_scope(self.session, execution.organization_id)
            pipeline = Pipeline.from_yaml(execution.pipeline_yaml, plugins.scope)
            check_execution(self.session, self.settings, execution)
            values = self._resolve_values(pipeline)
            self._check_names(pipeline.parameters)
            missing = pipeline.parameters - values.keys()
            if missing and not named:
                credentials.check_keys(missing, key_ring)
            extensions = PythonExtensionRepository(self.session, execution.organization_id)
            transforms = plugins.add_transforms(extensions.load_row_transforms(execution.agent_id))
            plan = pipeline.plan(values, Transforms(transforms), plugins.scope)
            self._check_scripts(plan)
            written_plan = plan
            plan = plan if execution.publishes else plan.keep_apart()
            own_steps = list_steps(plan)
            if execution.partition is not None:
                plan = self._add_partition(pipeline, plan)
        except PipelineError as error:
            raise describe_problems(error) from error
        if execution.pages_of and execution.publishes and (known := plan.options.incremental) and not known.keys:
            sentence = "An incremental pipeline without keys would add the rows of these pages again: publish none."
            raise BadInput(sentence, [Detail("publish", sentence, "conflicting-arguments")])
        execution.parameters, execution.row_transforms, execution.steps = {**values}, transforms, own_steps
        execution.plugins = freeze_plugins(self.session, self.settings, plugins, plan, execution.organization_id)
        inputs = resolve_inputs(self.session, self.project, self.job, written_plan)
        execution.inputs = narrow_inputs(self.session, execution, inputs)
        execution.outputs = freeze_outputs(self.session, execution, self.project, plan)
        written = [each.path for each in execution.outputs.values()]
        check_rejected_path(self.session, self.project, self.job, plan, written)
        execution.output_name, execution.output_mode = execution.outputs[OUTPUT].path, plan.output.mode.value
        self._check_modes(execution.outputs)
        writes_table = execution.partition is not None and execution.outputs[OUTPUT].location is not None
        if writes_table or any(each.partition for each in execution.inputs.values()):
            _check_protocol(execution.engine_build, TABLE_PARTITIONS_PROTOCOL, "knows no partitions of tables")
        self._choose_engine(plan)
        execution.libraries = _list_libraries(plan, execution.inputs)
        if execution.spark_reason is not None:
            _require_libraries(plan, execution.libraries)
        buckets, name = plan.bucket_credentials, plan.options.login
        if buckets or name:  # the plan needs the variables of the first call
            login = credentials.find_login(name) if name else None
            freeze_environment(execution, chosen, key_ring, credentials.select_for_buckets(buckets), login)
        execution.inputs |= freeze_rows(self.settings, execution, plan, self.request.rows)

    def _add_partition(self, pipeline: Pipeline, plan: Plan) -> Plan:
        """Return the plan with the partition's columns; raise PipelineError for one that is the same for every key."""
        columns = make_partition_columns(self.execution.partition, self.execution.partition_scheme)
        names = read_partitions(self.job.partitions).parameters
        if unused := find_unknown_parameters(names, pipeline.parameters):
            raise PipelineError(unused)
        return add_partition(plan, columns)

    def _check_scripts(self, plan: Plan) -> None:
        """Raise PipelineError for a script in pages, where the operator does not let the organization run any."""
        organization_id = self.execution.organization_id
        if (step := plan.find_script()) and not may_run_scripts(self.session, self.settings.plugins, organization_id):
            raise PipelineError([Problem(step.name, NO_SCRIPTS, step.line, code="script-not-allowed")])

    def _check_names(self, names: Collection[str]) -> None:
        """Raise PipelineError for names that the pipeline lacks; the parameters of a schedule serve several jobs."""
        given = list_given_names(self.request.parameters, self.request.arguments)
        unknown = find_unknown_parameters(given, names)
        if unknown and self.settings.executions.unknown_parameters == "refuse" and self.request.trigger != "schedule":
            raise PipelineError(unknown)
        # the driver warns of them
        unused = [name for name in given if name not in names]
        self.execution.arguments = [*self.execution.arguments, *unused]

    def _resolve_values(self, pipeline: Pipeline) -> dict[str, Value]:
        names, dataset_id, source = pipeline.parameters, self.job.input_dataset_id, None
        if dataset_id and names & set(INPUT_NAMES):
            source = DatasetRepository(self.session, self.job.organization_id).get(dataset_id)
        built_in = get_built_in(
            names, execution_id=self.execution.id, job=self.job, project=self.project, source=source, at=now()
        )
        return resolve_parameters(
            names,
            parameters=self.request.parameters,
            arguments=self.request.arguments,
            job=self.job,
            project=self.project,
            credentials=self.execution.credentials,
            built_in=built_in,
            environment=get_allowed_environment(self.settings.executions),
        )

    def _choose_engine(self, plan: Plan) -> None:
        """Choose the runner of the execution; raise Conflict where it is to run locally and needs Spark."""
        own = EngineName(self.job.engine)
        wanted = self.settings.executions.engine if own is EngineName.AUTO else own
        if conflict := find_engine_conflict(plan, wanted):
            where = f"line {conflict.line}" if conflict.line else conflict.path
            raise Conflict(_make_sentence(conflict.message), code=conflict.code, path=where)
        choice = choose_engine(plan, wanted)
        reason = choice.reason or (self._find_large_input(plan) if choice.may_change else None)
        self.execution.engine, self.execution.spark_reason = wanted, reason or None

    def _find_large_input(self, plan: Plan) -> str | None:
        """Return why only Spark reads a dataset that the plan loads or continues, as a run would find out late."""
        merges = plan.output.mode is Mode.MERGE and plan.output.format in TABLE_FORMATS
        if merges or plan.output.mode is Mode.HISTORY:
            earlier = find_current(self.session, self.execution, plan.output.path)
            if earlier is not None and (earlier.size_bytes or 0) > LOADED_BYTES:
                return "the size of its table" if merges else "the size of its history"
        for stage in (step.stage for step in plan.steps if isinstance(step.stage, LoadParquet | LoadJson)):
            path = stage.path
            read = self.execution.inputs.get(path)
            version = self.session.get(DatasetVersion, read.version) if read and read.is_published else None
            if read is None or version is None:
                continue
            parts = [part for part in version.partitions.values() if part.location in read.locations]
            size = sum(part.bytes or 0 for part in parts) if parts else version.size_bytes or 0
            if version.format != stage.format or size > LOADED_BYTES:
                return f"the format or size of '{path}'"
        return None

    def _check_modes(self, outputs: Mapping[str, FrozenOutput]) -> None:
        """Raise Conflict for rows that the mode `error` protects; the driver looks again."""
        for name, written in outputs.items():
            if written.mode == Mode.ERROR and find_current(self.session, self.execution, written.path) is not None:
                where = f"line of '{name}'" if name else "output.mode"
                target = written.path or self.execution.job_name
                sentence = f"There are rows at '{target}' already, and the mode is error."
                raise Conflict(sentence, code="output-exists", path=where)


def _list_libraries(plan: Plan, inputs: Mapping[str, FrozenInput]) -> list[str]:
    """Return the Java libraries that Spark needs for the stages, the output and the datasets that are read."""
    read = (library for each in inputs.values() for library in list_format_libraries(each.format))
    return sorted({*plan.libraries, *read})


def _require_libraries(plan: Plan, libraries: Collection[str]) -> None:
    """Fetch Java libraries if need be; raise Unavailable when they cannot be had."""
    if problem := next(find_missing_libraries(plan), None):
        where = f"line {problem.line}" if problem.line else problem.path
        raise Unavailable(_make_sentence(problem.message), code="missing-libraries", path=where)
    try:
        require_jars(libraries)
    except LibrariesMissing as error:
        raise Unavailable(_make_sentence(str(error)), code="missing-libraries") from error


def _make_sentence(message: str) -> str:
    return f"{message[0].upper()}{message[1:]}."
