"""Executing Dagster runs in threads: only the assets that a run selects are defined, which takes milliseconds.

A run of the launcher is created here, with the id that the launcher chose, so that neither the webserver nor the code
server takes part. A run of the UI exists already.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from dagster import (
    AssetKey,
    AssetMaterialization,
    DagsterEvent,
    DagsterEventType,
    DagsterExecutionStepNotFoundError,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    JobDefinition,
    ResourceDefinition,
    RunsFilter,
)
from sqlalchemy import update
from sqlalchemy.orm import Session

from core.data.datasets.versions import find_outcome
from core.definitions.agents.plan_outline import outline_pipeline
from core.definitions.jobs.keys import find_job_ids
from core.errors import NotFound
from core.infra.background import OutageLog
from core.infra.cleanup import Cleanup
from core.infra.database import execute_update, open_database
from core.infra.instances import get_instance_id
from core.infra.settings import Settings
from core.lifecycle.executions.parameters import is_built_in
from core.lifecycle.outlines.outlines import JobOutline, load_outline, load_outlines
from core.tables import Dataset, DatasetVersion, Execution, now
from core.tables.states import State
from orchestration.acceptance import Attempt, describe_revisions, find_parent_execution
from orchestration.assets import (
    NO_DRIVERS,
    START,
    build_definitions,
    build_job_asset,
    get_graph_name,
    get_project_job_name,
)
from orchestration.compute import create_compute
from orchestration.cron_jobs import call_cron_job
from orchestration.dagster_database_internals import wait_out_outages
from orchestration.dagster_internals import ASSET_JOB, UNFINISHED, RemoteRepositoryOrigin, locate_repository
from orchestration.dagster_run_internals import (
    RunDatabases,
    create_run,
    execute_stored_run,
    is_resumed,
    plan_job,
    separate_run_logs,
    show_driver_output,
)
from orchestration.instance import LOCATION, get_dagster_database_url
from orchestration.metadata import build_restored_metadata
from orchestration.old_runs import delete_lost_output, delete_old_runs
from orchestration.outages import describe_outage, is_outage, retry_outages
from orchestration.run_drivers import Service, build_drivers, pause_run
from orchestration.run_tags import ATTEMPT, EXECUTION, INSTANCE, build_run_tags, get_schedule_name
from orchestration.run_threads import RunThreads
from orchestration.running_attempts import RunningAttempts
from orchestration.schedules import record_run_of_tick

CODE = "orchestration.definitions"
EXAMPLE = """\
fetch: {url: "http://localhost/"}
pipeline: [{stage: extract, args: [{selector: h1}]}]
checks: [{check: row_count, min: 1}]
"""
BEGUN = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]
SWEEP_SECONDS = 3600.0
CORRECTED = "The execution has completed, which its run could not show: the database or the launcher was away."
GIVEN_UP = "The run was given up: its execution had ended without it."

log = structlog.get_logger()


def preload() -> None:
    """Define an example asset, so that Dagster and the engine import their lazy modules."""
    plan = outline_pipeline(EXAMPLE)
    example = JobOutline("", "", "", "", "", "", "", "", None, ("a", "b"), steps=plan.steps, checks=plan.checks)
    plan_job(build_run_job([example]))


class RunHost:
    """Executes runs in threads of this process, which share its connections, and finds those that exist."""

    def __init__(self, service: Service, instance: DagsterInstance) -> None:
        self.service = service
        self._instance = instance
        self._instance_id = get_instance_id(service.settings.data)
        self.threads = RunThreads(Path(instance.root_directory))
        if get_dagster_database_url(service.settings) is not None:
            wait_out_outages(instance, self.threads.pause)
        self._databases = RunDatabases(instance)
        separate_run_logs(instance)
        show_driver_output(instance)

    def find_runs(self, run_ids: Iterable[str]) -> Mapping[str, DagsterRun]:
        """Return by id those of the runs that exist. Raises Unavailable."""
        return {run.run_id: run for run in self._find(RunsFilter(run_ids=[*run_ids]))}

    def find_doubtful(self, since: datetime) -> Sequence[DagsterRun]:
        """Return the runs of attempts that this process does not execute and that have not ended, or failed since then.

        Raises Unavailable.
        """
        failed = RunsFilter(statuses=[DagsterRunStatus.FAILURE], updated_after=since)
        runs = [*self._find(RunsFilter(statuses=UNFINISHED)), *self._find(failed)]
        return [run for run in runs if ATTEMPT in run.tags and not self.threads.is_alive(run.run_id)]

    def _find(self, filters: RunsFilter) -> Sequence[DagsterRun]:
        try:
            return self._instance.get_runs(filters)
        except Exception as error:
            if not is_outage(error):
                raise
            raise describe_outage(error) from error

    def delete_old(self, cleanup: Cleanup, before: datetime) -> None:
        """Delete the runs that ended before a time. Raises Unavailable."""
        delete_old_runs(self._instance, self.service.database, cleanup, before)

    def sweep_output(self, stop: threading.Event) -> None:
        """Delete what runs that another instance has deleted have left on this machine, now and then."""
        outages = OutageLog()
        while not stop.wait(SWEEP_SECONDS):
            outages.run_step(self.delete_lost_output)

    def delete_lost_output(self) -> None:
        delete_lost_output(self._instance, now() - timedelta(days=self.service.settings.retention.run_days))

    def launch(self, run_id: str, attempt: Attempt) -> None:
        self.threads.start(run_id, partial(self.execute_attempt, run_id, attempt))

    def execute_attempt(self, run_id: str, attempt: Attempt, interrupt: threading.Event) -> None:
        """Create the run of an attempt and execute it; do nothing when the attempt has ended or was claimed."""
        found = retry_outages(partial(self._load_unclaimed, attempt), partial(pause_run, interrupt))
        if found is None:
            return
        execution, outline = found
        job = self._build_job([outline], interrupt, attempt)
        repository = locate_code_server(Path(self._instance.root_directory))
        self._databases.make(run_id)  # before its first event
        run = create_run(
            self._instance,
            job,
            run_id,
            config=_build_config(outline, execution),
            tags=build_run_tags(outline, execution) | {INSTANCE: self._instance_id},
            assets={AssetKey(outline.key)},
            repository=repository,
            module=CODE,
        )
        shown = self._show_in_tick(repository, outline, execution, run_id)
        try:
            self._execute(job, run)
        finally:
            if not shown:
                self._show_in_tick(repository, outline, execution, run_id)

    def _load_unclaimed(self, attempt: Attempt) -> tuple[Execution, JobOutline] | None:
        with self.service.database.read() as session:
            execution = session.get(Execution, attempt.execution_id)
            if execution is None or execution.claimed_at is not None or execution.state != State.PENDING:
                return None
            if execution.attempt != attempt.attempt:
                return None
            return execution, _freeze(load_outline(session, execution.job_id), execution)

    def resume_all(self, is_mine: Callable[[str | None], bool]) -> None:
        """Go on with the runs of attempts that had begun when this process last ended."""
        for run in self._find(RunsFilter(statuses=BEGUN)):
            if ATTEMPT in run.tags and is_mine(run.tags.get(INSTANCE)):
                self.threads.start(run.run_id, partial(self.resume, run.run_id))

    def take_over(self, run_id: str) -> None:
        """Go on with the run of an instance that is lost, unless the run has ended. Raises Unavailable."""
        for run in self._find(RunsFilter(run_ids=[run_id], statuses=BEGUN)):
            self._instance.add_run_tags(run.run_id, {INSTANCE: self._instance_id})
            self.threads.start(run.run_id, partial(self.resume, run.run_id))

    def interrupt_cancelled(self) -> None:
        """End the runs of this process that a user has terminated by another instance. Raises Unavailable."""
        for run in self._find(RunsFilter(statuses=[DagsterRunStatus.CANCELING])):
            self.threads.interrupt(run.run_id)

    def resume(self, run_id: str, interrupt: threading.Event) -> None:
        """Show the rest of an execution whose run was interrupted: its driver has gone on."""
        run = self._instance.get_run_by_id(run_id)
        with self.service.database.read() as session:
            execution = session.get(Execution, run.tags[EXECUTION]) if run else None
            if run is None or execution is None or execution.run_id != run_id:
                return  # nobody follows it, so that Dagster ends it
            outline = _freeze(load_outline(session, execution.job_id), execution)
        attempt = Attempt(execution.id, int(run.tags[ATTEMPT]), resumes=True)
        self._execute(self._build_job([outline], interrupt, attempt, run.job_name), run)

    def execute_run(self, run_id: str, interrupt: threading.Event) -> None:
        """Execute a run that the UI has created. A run without its jobs fails with a sentence."""
        instance = self._instance
        run = instance.get_run_by_id(run_id)
        if run is None:
            return
        if run.job_name == call_cron_job.name:
            self._execute(call_cron_job, run)
            return
        with self.service.database.read() as session:
            try:
                outlines = load_run_outlines(session, run)
            except NotFound as error:
                instance.report_run_failed(run, error.sentence)
                return
            conflict = _find_changed_stages(session, instance, run, outlines)
        if conflict is not None:
            instance.report_run_failed(run, conflict)
            return
        job = self._build_job(outlines, interrupt, name=run.job_name)
        try:
            self._execute(job, run)
        except DagsterExecutionStepNotFoundError as error:
            steps = ", ".join(error.step_keys)
            instance.report_run_failed(run, f"The pipeline has no more such steps: {steps}. Use 'Re-execute all'.")

    def show_restored(self, dataset_id: str) -> None:
        """Materialize the asset of a job whose table was restored, unless a later version is current already."""
        database = self.service.database
        with database.read() as session:
            dataset = session.get(Dataset, dataset_id)
            shown = dataset.unshown_version_id if dataset else None
            version = session.get(DatasetVersion, shown) if shown else None
            is_current = version is not None and dataset is not None and dataset.current_version_id == version.id
            outline = load_outline(session, dataset.job_id) if is_current and dataset and dataset.job_id else None
        if outline is not None and version is not None:
            sentence = f"Version {version.number}: version {version.restored_from} was restored."
            metadata = build_restored_metadata(outline, version)
            self._instance.report_runless_asset_event(AssetMaterialization(AssetKey(outline.key), sentence, metadata))
        with database.write() as session:
            same = (Dataset.id == dataset_id, Dataset.unshown_version_id == shown)
            values = {"unshown_version_id": None, "updated_at": Dataset.updated_at}
            execute_update(session, update(Dataset).where(*same).values(values))

    def correct_end(self, run: DagsterRun, execution: Execution) -> bool:
        """Let the run that has claimed an execution end as that did; return whether it had to.

        A run that repeats another one has the tags of that.
        """
        state = State(execution.state)
        if not state.terminal or execution.run_id != run.run_id:
            return False
        if state is State.COMPLETED:
            success = DagsterEvent(DagsterEventType.RUN_SUCCESS.value, run.job_name, message=CORRECTED)
            self._instance.report_dagster_event(success, run.run_id)
            self._show_version(execution)
            return True
        if run.is_finished:
            return False
        if state is State.CANCELLED:
            self._instance.report_run_canceled(run)
        else:
            self._instance.report_run_failed(run, execution.error_message or GIVEN_UP)
        return True

    def delete_run(self, run_id: str) -> None:
        """Delete a run that has not claimed its attempt, before another one does."""
        self._databases.close(run_id)
        if self._instance.has_run(run_id):
            self._instance.delete_run(run_id)

    def _show_version(self, execution: Execution) -> None:
        """Materialize the asset where the execution has published what is current."""
        with self.service.database.read() as session:
            version = find_outcome(session, execution.dataset_id, execution.id)
            if version is None or version.execution_id != execution.id:
                return
            outline = load_outline(session, execution.job_id)
        metadata, partition = build_restored_metadata(outline, version), execution.partition
        self._instance.report_runless_asset_event(
            AssetMaterialization(AssetKey(outline.key), CORRECTED, metadata, partition=partition)
        )

    def report_failure(self, run_id: str, sentence: str) -> None:
        """End a run that cannot be started."""
        run = self._instance.get_run_by_id(run_id)
        if run is not None:
            self._instance.report_run_failed(run, sentence)

    def _execute(self, job: JobDefinition, run: DagsterRun) -> None:
        self._databases.make(run.run_id)
        try:
            execute_stored_run(self._instance, job, run)
        finally:
            self._databases.close(run.run_id)

    def _build_job(
        self,
        outlines: Sequence[JobOutline],
        interrupt: threading.Event,
        attempt: Attempt | None = None,
        name: str | None = None,
    ) -> JobDefinition:
        named = {get_graph_name(outline.key): outline for outline in outlines}
        return build_run_job(outlines, build_drivers(self.service, named, interrupt, attempt), name)

    def _show_in_tick(
        self, repository: RemoteRepositoryOrigin, outline: JobOutline, execution: Execution, run_id: str
    ) -> bool:
        """Add the run to the tick of the schedule that caused it; return False while the tick is not finished.

        No error of this display keeps the execution from its run.
        """
        if execution.trigger != "schedule" or execution.tick_at is None:
            return True
        name = get_schedule_name(outline, execution)
        try:
            return record_run_of_tick(self._instance, repository, name, execution.tick_at, run_id)
        except Exception:
            log.exception("the tick does not show its run", execution_id=execution.id, run_id=run_id)
            return True


@contextmanager
def open_run_host(settings: Settings) -> Generator[RunHost]:
    """Open the parts of the service that runs use, and Dagster's instance, for as long as the context."""
    database = open_database(settings, settings.database.launcher_connections)
    with closing(database), DagsterInstance.get() as instance:
        service = Service(settings, database, create_compute(settings, database), RunningAttempts(database))
        yield RunHost(service, instance)


def _find_changed_stages(
    session: Session, instance: DagsterInstance, run: DagsterRun, outlines: Sequence[JobOutline]
) -> str | None:
    """Return why the run cannot continue an execution: the stages of its agent were changed since."""
    chosen = run.step_keys_to_execute
    for outline in outlines:
        graph = get_graph_name(outline.key)
        if chosen is not None and not any(key.startswith(f"{graph}.") for key in chosen):
            continue
        if not is_resumed(run) and (chosen is None or f"{graph}.{START}" in chosen):
            continue
        execution_id = find_parent_execution(instance, run, outline)
        execution = session.get(Execution, execution_id) if execution_id else None
        if execution is None or not execution.pipeline_yaml or execution.pipeline_yaml == outline.pipeline_yaml:
            continue
        frozen = [step.name for step in outline_pipeline(execution.pipeline_yaml).steps]
        if frozen != [step.name for step in outline.steps]:
            return f"{describe_revisions(execution, outline)} Their stages differ, so the run cannot continue."
    return None


def load_run_outlines(session: Session, run: DagsterRun) -> Sequence[JobOutline]:
    """Return the outlines of the jobs that a run executes: those of its selection, or all of its project.

    Raises NotFound for a job that was deleted.
    """
    checked = {key.asset_key for key in run.asset_check_selection or ()}
    keys = sorted(tuple(key.path) for key in {*(run.asset_selection or ()), *checked})
    if keys:
        return load_outlines(session, find_job_ids(session, keys))
    outlines = [each for each in load_outlines(session) if each.obstacle is None]
    return [each for each in outlines if run.job_name in (ASSET_JOB, _get_job_name(each))]


def build_run_job(
    outlines: Sequence[JobOutline], drivers: ResourceDefinition = NO_DRIVERS, name: str | None = None
) -> JobDefinition:
    """Return a job for only the assets of these outlines: the named one, else that of their project if it is one.

    An obstacle of a job becomes the error of its first step. What a run was started with is not compared with the
    parameters that its job has now.
    """
    outlines = [replace(outline, obstacle=None, parameters=()) for outline in outlines]
    definitions = build_definitions([build_job_asset(outline) for outline in outlines], drivers)
    projects = {_get_job_name(outline) for outline in outlines}
    return definitions.resolve_job_def(name or (projects.pop() if len(projects) == 1 else ASSET_JOB))


def _get_job_name(outline: JobOutline) -> str:
    return ASSET_JOB if outline.partitions else get_project_job_name(outline.key)


def _freeze(outline: JobOutline, execution: Execution) -> JobOutline:
    """Return the outline with the pipeline of the execution, which the job's agent may not have any more."""
    outline = replace(outline, agent_revision=execution.agent_revision)
    if outline.pipeline_yaml == execution.pipeline_yaml:
        return outline
    plan = outline_pipeline(execution.pipeline_yaml)
    return replace(outline, pipeline_yaml=execution.pipeline_yaml, steps=plan.steps, checks=plan.checks)


def _build_config(outline: JobOutline, execution: Execution) -> dict[str, Any]:
    """Return the run's config, with which the run can be launched again.

    It has the parameters that somebody has set, as the launchpad takes them: those of credentials and of the execution
    itself are computed again.
    """
    declared = {each.name: each for each in outline.parameters}
    parameters = {
        name: declared[name].convert(value) if name in declared else value
        for name, value in execution.parameters.items()
        if name not in execution.credentials and not is_built_in(name, value, outline.project_slug)
    }
    config = {"parameters": parameters, "limit": execution.row_limit}
    return {"ops": {get_graph_name(outline.key): {"config": config}}}


def locate_code_server(home: Path) -> RemoteRepositoryOrigin:
    """Return the origin by which the webserver finds the definitions of a run, to execute it again."""
    server = json.loads((home / "workspace.yaml").read_text())["load_from"][0]["grpc_server"]
    return locate_repository(server["host"], server["port"], LOCATION)
