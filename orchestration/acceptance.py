"""The execution that a step of a Dagster run works on: claimed, submitted, or continued.

A run of the launcher claims the attempt that it was started for. Any other run comes from the UI. Its `start` submits
an execution of the job, as REST does. A run without `start`, or of the failed assets of another run, begins the next
attempt of that run's execution. Both wait for one of the project's slots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, OpExecutionContext

from core.errors import Conflict, NotFound
from core.infra.database import Database
from core.infra.settings import Settings
from core.lifecycle.executions.parameters import LIMIT
from core.lifecycle.executions.reports import cancel, claim
from core.lifecycle.outlines.outlines import JobOutline
from core.lifecycle.submission.planning import SubmitRequest
from core.lifecycle.submission.submit import RetryRequest, retry, submit
from core.tables import Execution
from core.tables.states import State
from orchestration.dagster_run_internals import is_resumed
from orchestration.outages import retry_outages
from orchestration.partitions import PARTITION
from orchestration.run_tags import build_run_tags, get_execution_tag

WAIT_SECONDS = 0.5
CANCELLED = "The execution was cancelled."
TERMINATED = "The run was terminated in Dagster."


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that the launcher has started a run for; `resumes` when the run has claimed it before a restart."""

    execution_id: str
    attempt: int
    resumes: bool = False


class Acceptance:
    """Finds or creates the execution of one asset in one run; `is_single`: the run's only asset.

    A cancelled execution cancels its run where `ends_run` says that no other asset goes on. `pause` waits, and raises
    where the run is to end.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        outline: JobOutline,
        attempt: Attempt | None,
        is_single: bool,
        ends_run: Callable[[], bool],
        pause: Callable[[float], None],
    ) -> None:
        self._settings = settings
        self._database = database
        self._outline = outline
        self._attempt = attempt
        self._is_single = is_single
        self._ends_run = ends_run
        self._pause = pause

    def accept(self, context: OpExecutionContext, options: Mapping[str, Any] | None) -> Execution:
        """Return the execution, claimed for this run; `options` are those of `start`.

        Raises SpindleError when it cannot be executed, or continued.
        """
        if self._attempt is not None:
            resumes = self._attempt.resumes
            return self._load(self._attempt.execution_id) if resumes else self._claim(context, self._attempt)
        parent = find_parent_execution(context.instance, context.run, self._outline)
        if options is not None and not (parent and is_resumed(context.run)):
            return self._await_slot(context, self._submit(context, options))
        if parent is None:
            raise Conflict("There is no execution to continue. Materialize the asset, or re-execute the whole run.")
        steps = context.run.step_keys_to_execute
        if steps is not None and f"{context.op_handle.path[0]}.publish" not in steps:
            raise Conflict("Stages cannot be executed alone. Select the later stages and `publish` too.")
        return self._await_slot(context, self._retry(context, parent))

    def _submit(self, context: OpExecutionContext, options: Mapping[str, Any]) -> Execution:
        outline, publish = self._outline, options["publish"]
        # the launchpad begins with all defaults, and a pipeline's would come before credentials
        defaults = [(each.name, each.default) for each in outline.parameters]
        parameters = {
            name: each for name, each in options.get("parameters", {}).items() if (name, each) not in defaults
        }
        is_limited = options["limit"] is not None or parameters.get(LIMIT) is not None
        request = SubmitRequest(
            organization_id=outline.organization_id,
            project_id=outline.project_id,
            job_id=outline.job_id,
            parameters=parameters,
            limit=options["limit"],
            publish=False if publish is None and is_limited else publish,
            queue=True,
            run_id=context.run_id,
            trigger="dagster",
            partition=context.run.tags.get(PARTITION) if outline.partitions else None,
        )
        return submit(self._database, self._settings, request)

    def _retry(self, context: OpExecutionContext, execution_id: str) -> Execution:
        outline = self._outline
        request = RetryRequest(
            organization_id=outline.organization_id,
            project_id=outline.project_id,
            job_id=outline.job_id,
            execution_id=execution_id,
            queue=True,
            run_id=context.run_id,
        )
        with self._database.write() as session:
            execution = retry(session, self._settings, request)
        if execution.pipeline_yaml != outline.pipeline_yaml:
            context.log.warning(describe_revisions(execution, outline))
        return execution

    def _await_slot(self, context: OpExecutionContext, execution: Execution) -> Execution:
        """Claim the accepted attempt as soon as the project has a slot for it."""
        tags = build_run_tags(self._outline, execution, self._is_single)
        context.instance.add_run_tags(context.run_id, tags)
        attempt = Attempt(execution.id, execution.attempt)
        if execution.state == State.QUEUED:
            pools = f" and a place in its pools: {', '.join(execution.pools)}" if execution.pools else ""
            context.log.info(f"The execution waits for a slot of its project{pools}.")
        try:
            while execution.state == State.QUEUED:
                self._pause(WAIT_SECONDS)
                execution = self._load(attempt.execution_id)
        except BaseException:
            run = context.instance.get_run_by_id(context.run_id)
            if run is not None and run.status in (DagsterRunStatus.CANCELING, DagsterRunStatus.CANCELED):
                organization_id = self._outline.organization_id
                cancel(self._database, organization_id, attempt.execution_id, TERMINATED, attempt.attempt)
            raise
        return self._claim(context, attempt)

    def _claim(self, context: OpExecutionContext, attempt: Attempt) -> Execution:
        ids = (attempt.execution_id, attempt.attempt, context.run_id)
        execution = retry_outages(partial(claim, self._database, *ids), self._pause)
        if execution is not None:
            return execution
        found = self._load(attempt.execution_id)
        if (found.id, found.attempt, found.run_id) == ids and not State(found.state).terminal:
            return found  # the claim was stored before its connection was lost
        if found.state == State.CANCELLED and found.attempt == attempt.attempt and self._ends_run():
            context.instance.report_run_canceling(context.run, CANCELLED)
        sentence = found.error_message if State(found.state).terminal and found.attempt == attempt.attempt else None
        raise Conflict(sentence or f"Run {found.run_id} has claimed this attempt of the execution, or a newer one.")

    def _load(self, execution_id: str) -> Execution:
        execution = retry_outages(partial(self._find, execution_id), self._pause)
        if execution is None:
            raise NotFound("The execution was deleted.")
        return execution

    def _find(self, execution_id: str) -> Execution | None:
        with self._database.read() as session:
            return session.get(Execution, execution_id)


def find_parent_execution(instance: DagsterInstance, run: DagsterRun, outline: JobOutline) -> str | None:
    """Return the id of the job's execution in the run that this run repeats."""
    parent = instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    tags = parent.tags if parent else {}
    return tags.get(get_execution_tag(outline, is_single=True)) or tags.get(get_execution_tag(outline, is_single=False))


def describe_revisions(execution: Execution, outline: JobOutline) -> str:
    """Return which revision of the agent the execution keeps, and how to execute the newest one."""
    return (
        f"The execution keeps revision {execution.agent_revision} of its agent. The job's agent is now at revision "
        f"{outline.agent_revision}, which 'Re-execute all' takes."
    )
