"""One execution's driver for the length of one Dagster run: started, followed and ended with it.

The run shows what the driver does. It decides nothing: the driver's last report goes through core.executions.complete,
as its webhook does, and whoever comes first counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from dagster import (
    DagsterRunStatus,
    Failure,
    OpExecutionContext,
    PipesEnvContextInjector,
    PipesFileMessageReader,
    PipesSession,
    open_pipes_session,
    resource,
)

from core.errors import NotFound, SpindleError
from core.executions.claim import claim
from core.executions.complete import cancel, fail, record
from core.executions.payload import CompletionPayload
from core.executions.queries import Executions
from core.executions.spec import driver_environment, write_spec
from core.executions.states import State
from core.identity.organizations import is_shared
from core.infra.database import Database, open_database
from core.infra.settings import Settings
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import log_key
from core.jobs.repository import JobRepository
from core.projects.repository import ProjectRepository
from core.tables import Execution
from orchestration.compute import Compute, driver_name
from orchestration.compute.local import LocalCompute
from orchestration.translator import StageStep

POLL_SECONDS = 0.1
WATCH_SECONDS = 1.0
LOG_SECONDS = 2.0
EXIT_SECONDS = 15.0
TERMINATED = "The run was terminated in Dagster."
INTERRUPTED = "The run ended before its driver did: Spindle was stopped, or the run's page in Dagster shows an error."

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the driver's work ended, and the completion payload where the driver itself said so."""

    state: State
    sentence: str = ""
    payload: Report | None = None


class DriverSession:
    """Holds the one Pipes session and the driver's name over all steps of the run."""

    def __init__(self, settings: Settings, database: Database, compute: Compute) -> None:
        self._settings = settings
        self._database = database
        self._compute = compute
        self._stack = ExitStack()
        self._context: OpExecutionContext | None = None
        self._execution: Execution | None = None
        self._pipes: PipesSession | None = None
        self._steps: Sequence[StageStep] = ()
        self._messages_read = 0
        self._stages: dict[str, Report] = {}
        self._outcome: Outcome | None = None
        self._failed_stage: str | None = None
        self._watched_at = 0.0
        self._ended_elsewhere = False

    @property
    def execution(self) -> Execution:
        if self._execution is None:
            raise RuntimeError("No execution has been claimed.")
        return self._execution

    def claim(self, context: OpExecutionContext, execution_id: str, attempt: int) -> bool:
        """False when another run has this attempt, or when it has ended: then there is nothing to do here."""
        self._context = context
        self._execution = claim(self._database, execution_id, attempt, context.run_id)
        return self._execution is not None

    @property
    def claimed(self) -> bool:
        return self._execution is not None

    def start(self, context: OpExecutionContext, steps: Sequence[StageStep]) -> None:
        execution, self._steps = self.execution, steps
        with self._database.read() as session:
            shared = is_shared(session)
        spec_path = write_spec(self._settings, execution, shared)
        reader = PipesFileMessageReader(str(spec_path.with_name("messages.jsonl")))
        self._pipes = self._stack.enter_context(open_pipes_session(context, PipesEnvContextInjector(), reader))
        environment = {**driver_environment(self._settings, execution), **self._pipes.get_bootstrap_env_vars()}
        key = log_key(execution.organization_id, execution.id, execution.attempt)
        log_path = LocalStorage(self._settings.data / "storage").path(key)
        context.log.info(f"Execution {execution.id}, attempt {execution.attempt}. The driver's log: {log_path}")
        self._compute.launch(self._name, spec_path, environment, log_path)

    def follow(self, context: OpExecutionContext, step: StageStep) -> Report:
        """Waits for the end of one stage, logging its progress; the stage's last message. Raises Failure."""
        if self._failed_stage is not None:
            raise failure(f"Not run, because {self._failed_stage} failed.")
        log = ProgressLog(context)
        while True:
            self._read()
            stage = self._stages.get(step.key, {})
            log.show(stage)
            if stage.get("state") == State.COMPLETED:
                return stage
            if self._outcome is not None:
                self._raise_unless_completed(step.key)
                return stage
            self._watch(context)

    def publish(self, context: OpExecutionContext) -> Report:
        """Waits for the driver's last report and records it; the completion payload. Raises Failure."""
        while self._outcome is None:
            self._read()
            self._watch(context)
        self._raise_unless_completed("publish")
        return self._outcome.payload or {}

    def give_up(self, sentence: str) -> Failure:
        """Ends the execution as failed for this reason."""
        fail(self._database, self.execution.id, sentence, self.execution.attempt)
        self._outcome = Outcome(State.FAILED, sentence)
        return failure(sentence)

    @property
    def output(self) -> Report:
        """The last message of the last stage: the output's columns and preview."""
        return self._stages.get(self._steps[-1].key, {})

    def asset_key(self) -> list[str]:
        """[project's slug, job's slug]: the name that SQL knows the job's output by."""
        execution = self.execution
        with self._database.read() as session:
            project = ProjectRepository(session, execution.organization_id).get(execution.project_id)
            job = JobRepository(session, execution.organization_id).get(execution.project_id, execution.job_id)
            return [project.slug, job.slug]

    def close(self) -> None:
        """Leaves no driver behind: one that has reported its end may exit by itself, any other is stopped."""
        try:
            if self._execution is not None and self._outcome is None:
                self._interrupt()
        finally:
            if self._execution is not None:
                self._end_driver()
            self._stack.close()
            self._database.close()

    @property
    def _name(self) -> str:
        return driver_name(self.execution.id, self.execution.attempt)

    def _read(self) -> None:
        messages = self._pipes.get_custom_messages() if self._pipes else ()
        for message in messages[self._messages_read :]:
            if message.get("type") == "stage":
                self._stages[message["key"]] = message
            elif message.get("type") == "finished":
                self._finish(message)
        self._messages_read = len(messages)

    def _finish(self, message: Report) -> None:
        payload = CompletionPayload.model_validate(message["payload"])
        execution = self.execution
        try:
            state = record(self._database, execution.organization_id, execution.project_id, execution.job_id, payload)
        except SpindleError as error:
            self.give_up(f"The driver's report could not be recorded: {error.sentence}")
            return
        sentence = message.get("message") or ""
        self._outcome = Outcome(state, sentence if state == message["state"] else self._now()[1], message["payload"])

    def _watch(self, context: OpExecutionContext) -> None:
        """Once a second: is the driver still there, and has the execution ended elsewhere (cancelled, lost)?"""
        time.sleep(POLL_SECONDS)
        if time.monotonic() - self._watched_at < WATCH_SECONDS:
            return
        self._watched_at = time.monotonic()
        state, sentence = self._now()
        if state is State.CANCELLED and context.run.status is not DagsterRunStatus.CANCELING:
            context.instance.report_run_canceling(context.run, "The execution was cancelled.")
        if state is State.CANCELLED or (state.terminal and self._ended_elsewhere):
            self._outcome = Outcome(state, sentence)
        self._ended_elsewhere = state.terminal  # its own report may still be on its way: looked at once more
        if not state.terminal:
            self._check_alive()

    def _check_alive(self) -> None:
        status = self._compute.observe(self._name)
        if status.running:
            return
        time.sleep(2 * POLL_SECONDS)  # its last words are still being read
        self._read()
        if self._outcome is None:
            how = f"with exit code {status.exit_code}" if status.exit_code is not None else "unexpectedly"
            self.give_up(f"The driver ended {how} before it had finished. The execution's log tells what it did last.")

    def _raise_unless_completed(self, key: str) -> None:
        outcome = self._outcome
        if outcome is None or outcome.state is State.COMPLETED:
            return
        failed = [name for name, stage in self._stages.items() if stage.get("state") == State.FAILED]
        self._failed_stage = failed[0] if failed else key
        if self._failed_stage != key:
            raise failure(f"Not finished, because {self._failed_stage} failed.")
        raise failure(outcome.sentence or "The driver reported a failure.")

    def _interrupt(self) -> None:
        """The run ends before the driver does: terminated by somebody, with the service, or by an error here."""
        execution, context = self.execution, self._context
        run = context.instance.get_run_by_id(context.run_id) if context else None
        with suppress(NotFound):  # it was deleted
            if run is not None and run.status in (DagsterRunStatus.CANCELING, DagsterRunStatus.CANCELED):
                cancel(self._database, execution.organization_id, execution.id, TERMINATED, execution.attempt)
            else:
                fail(self._database, execution.id, INTERRUPTED, execution.attempt)

    def _end_driver(self) -> None:
        deadline = time.monotonic() + (EXIT_SECONDS if self._outcome else 0)
        while self._compute.observe(self._name).running and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._compute.cancel(self._name)

    def _now(self) -> tuple[State, str]:
        """The execution's state in the database, and the message that came with it."""
        execution = self.execution
        try:
            with self._database.read() as session:
                executions = Executions(session, execution.organization_id)
                current = executions.get(execution.project_id, execution.job_id, execution.id)
        except NotFound:
            return State.CANCELLED, "The execution was deleted."
        if current.attempt != execution.attempt:
            return State.CANCELLED, "The execution was retried: another attempt is on."
        return State(current.state), current.error_message or ""


def failure(sentence: str) -> Failure:
    """What ends a step. Dagster shows the sentence alone: a stack trace of ours would tell a person nothing."""
    sys.tracebacklimit = 0  # from here on the run only ends
    return Failure(sentence, allow_retries=False)


class ProgressLog:
    """Live progress in the step's log: a line when something has changed, at most each two seconds."""

    def __init__(self, context: OpExecutionContext) -> None:
        self._context = context
        self._said = ""
        self._said_at = 0.0

    def show(self, stage: Report) -> None:
        line = ", ".join(f"{stage[name]:,} {name}" for name in ("rows", "pages", "errors") if stage.get(name))
        if line and line != self._said and time.monotonic() - self._said_at >= LOG_SECONDS:
            self._context.log.info(line)
            self._said, self._said_at = line, time.monotonic()


@resource(description="The driver of this run's execution.")
def driver_session() -> Generator[DriverSession]:
    settings = Settings()
    session = DriverSession(settings, open_database(settings), LocalCompute(settings.data))
    try:
        yield session
    finally:
        session.close()
