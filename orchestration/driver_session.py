"""The driver of one execution, seen from its Dagster run: started, followed and stopped with the run.

The run only displays the driver's progress. The driver's last report is recorded through core.executions.reports, as
by its webhook; the first to arrive counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from dagster import (
    DagsterRunStatus,
    Failure,
    OpExecutionContext,
    PipesEnvContextInjector,
    PipesSession,
    open_pipes_session,
    resource,
)

from core.errors import NotFound, SpindleError
from core.executions.payload import CompletionPayload
from core.executions.reports import cancel, claim, fail, record_report, release_cancelled
from core.executions.repository import ExecutionRepository
from core.executions.spec import build_spec, load_driver_secrets
from core.executions.states import State
from core.identity.organizations import is_shared
from core.infra.database import Database, open_database
from core.infra.logs import drop_traces
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.tables import Execution, Job, Project
from orchestration.compute import create_compute
from orchestration.compute.protocol import Compute, DriverHandle

POLL_SECONDS = 0.1
WATCH_SECONDS = 0.5
LOG_SECONDS = 2.0
REPORT_SECONDS = 2.0  # from the end of the execution to the driver's own message of it
EXIT_SECONDS = 15.0
LOG_LINES_READ, LAST_LOG_LINES = 500, 20  # most lines may be those of stack traces
TERMINATED = "The run was terminated in Dagster."
INTERRUPTED = "The run ended before its driver did: Spindle was stopped, or the run's page in Dagster shows an error."

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the execution ended, with the completion payload where the driver sent one."""

    state: State
    sentence: str = ""
    payload: Message | None = None


class DriverSession:
    """Holds the Dagster Pipes session and the driver's handle over all steps of a run."""

    def __init__(self, settings: Settings, database: Database, compute: Compute) -> None:
        self._settings = settings
        self._database = database
        self._compute = compute
        self._stack = ExitStack()
        self._context: OpExecutionContext | None = None
        self._execution: Execution | None = None
        self._pipes: PipesSession | None = None
        self._messages_read = 0
        self._stages: dict[str, Message] = {}
        self._outcome: Outcome | None = None
        self._failed_stage: str | None = None
        self._watched_at = 0.0
        self._ended_at: float | None = None

    @property
    def execution(self) -> Execution:
        if self._execution is None:
            raise RuntimeError("No execution has been claimed.")
        return self._execution

    @property
    def is_claimed(self) -> bool:
        return self._execution is not None

    @property
    def output_stage(self) -> Message:
        """The last message of the last stage: the output's columns and preview."""
        steps = self.execution.steps
        return self._stages.get(steps[-1]["key"], {}) if steps else {}

    def claim(self, context: OpExecutionContext, execution_id: str, attempt: int) -> bool:
        """Claim the attempt; return False when another run has it or when it has ended."""
        self._context = context
        self._execution = claim(self._database, execution_id, attempt, context.run_id)
        return self._execution is not None

    def start(self, context: OpExecutionContext) -> None:
        """Start the driver of the claimed attempt, with a Pipes session for its messages."""
        execution = self.execution
        with self._database.read() as session:
            isolate_transforms = is_shared(session)
        if execution.attempt > 1:  # the driver of a cancelled attempt may still be ending
            self._compute.cancel(DriverHandle(execution.organization_id, execution.id, execution.attempt - 1))
        reader = self._compute.create_message_reader(self._handle)
        self._pipes = self._stack.enter_context(open_pipes_session(context, PipesEnvContextInjector(), reader))
        context.log.info(f"Execution {execution.id}, attempt {execution.attempt}.")
        self._compute.launch(
            build_spec(self._settings, open_storage(self._settings), execution, isolate_transforms),
            load_driver_secrets(self._settings, execution),
            self._pipes.get_bootstrap_env_vars(),
        )

    def follow_stage(self, context: OpExecutionContext, key: str) -> Message:
        """Wait for the end of one stage, logging its progress; return its last message, or raise Failure."""
        if self._failed_stage is not None:
            raise make_failure(f"Not run, because {self._failed_stage} failed.")
        log = ProgressLog(context)
        while True:
            self._read_messages()
            stage = self._stages.get(key, {})
            log.show(stage)
            if stage.get("state") == State.COMPLETED:
                return stage
            if self._outcome is not None:
                self._raise_unless_completed(key)
                return stage
            self._watch(context)

    def await_completion(self, context: OpExecutionContext) -> Message:
        """Wait for the driver's last report and record it; return the completion payload, or raise Failure."""
        while self._outcome is None:
            self._read_messages()
            self._watch(context)
        self._raise_unless_completed("publish")
        return self._outcome.payload or {}

    def fail(self, sentence: str) -> Failure:
        """End the execution as FAILED for this reason."""
        fail(self._database, self.execution.id, sentence, self.execution.attempt)
        self._outcome = Outcome(State.FAILED, sentence)
        return make_failure(sentence)

    def load_asset_key(self) -> list[str]:
        """Return the slugs of project and job, by which SQL names the job's output."""
        with self._database.read() as session:
            project = session.get_one(Project, self.execution.project_id)
            return [project.slug, session.get_one(Job, self.execution.job_id).slug]

    def close(self) -> None:
        """Stop the driver, after some time to exit once it has reported its end."""
        try:
            if self._execution is not None and self._outcome is None:
                self._record_interruption()
        finally:
            if self._execution is not None:
                self._end_driver()
            self._stack.close()
            self._database.close()

    @property
    def _handle(self) -> DriverHandle:
        return DriverHandle(self.execution.organization_id, self.execution.id, self.execution.attempt)

    def _read_messages(self) -> None:
        messages = self._pipes.get_custom_messages() if self._pipes else ()
        for message in messages[self._messages_read :]:
            if message.get("type") == "stage":
                self._stages[message["key"]] = message
            elif message.get("type") == "finished":
                self._record_end(message)
        self._messages_read = len(messages)

    def _record_end(self, message: Message) -> None:
        payload = CompletionPayload.model_validate(message["payload"])
        execution = self.execution
        try:
            state = record_report(
                self._database,
                open_storage(self._settings),
                execution.organization_id,
                execution.project_id,
                execution.job_id,
                payload,
            )
        except SpindleError as error:
            self.fail(f"The driver's report could not be recorded: {error.sentence}")
            return
        sentence = message.get("message") or ""
        if state != message["state"]:
            _, sentence = self._load_state()
        self._outcome = Outcome(state, sentence, message["payload"])

    def _watch(self, context: OpExecutionContext) -> None:
        """Check twice a second that the driver lives, and that the execution has not ended otherwise."""
        time.sleep(POLL_SECONDS)
        if time.monotonic() - self._watched_at < WATCH_SECONDS:
            return
        self._watched_at = time.monotonic()
        state, sentence = self._load_state()
        if state is State.CANCELLED and context.run.status is not DagsterRunStatus.CANCELING:
            context.instance.report_run_canceling(context.run, "The execution was cancelled.")
        if state.terminal and self._ended_at is None:
            self._ended_at = time.monotonic()
        has_waited = self._ended_at is not None and time.monotonic() - self._ended_at > REPORT_SECONDS
        if state is State.CANCELLED or (state.terminal and has_waited):
            self._outcome = Outcome(state, sentence)
        if state is State.CANCELLED:
            self._end_driver()  # at once: the steps that are left may take longer to end
        if not state.terminal:
            self._check_alive(context)

    def _check_alive(self, context: OpExecutionContext) -> None:
        status = self._compute.observe(self._handle)
        if status.running:
            return
        time.sleep(2 * POLL_SECONDS)  # Pipes may still be reading its last messages
        self._read_messages()
        if self._outcome is None:
            if lines := [*drop_traces(self._compute.read_logs(self._handle, tail=LOG_LINES_READ))][-LAST_LOG_LINES:]:
                context.log.error("\n".join(("The driver's last log lines:", *lines)))
            how = f"with exit code {status.exit_code}" if status.exit_code is not None else "unexpectedly"
            self.fail(f"The driver ended {how} before it had finished. The execution's log tells what it did last.")

    def _raise_unless_completed(self, key: str) -> None:
        outcome = self._outcome
        if outcome is None or outcome.state is State.COMPLETED:
            return
        failed = [name for name, stage in self._stages.items() if stage.get("state") == State.FAILED]
        self._failed_stage = failed[0] if failed else key
        if self._failed_stage != key:
            raise make_failure(f"Not finished, because {self._failed_stage} failed.")
        raise make_failure(outcome.sentence or "The driver reported a failure.")

    def _record_interruption(self) -> None:
        """Record that the run ends before its driver: terminated, stopped with the service, or by an error here."""
        execution, context = self.execution, self._context
        run = context.instance.get_run_by_id(context.run_id) if context else None
        with suppress(NotFound):  # the execution was deleted
            if run is not None and run.status in (DagsterRunStatus.CANCELING, DagsterRunStatus.CANCELED):
                cancel(self._database, execution.organization_id, execution.id, TERMINATED, execution.attempt)
            else:
                fail(self._database, execution.id, INTERRUPTED, execution.attempt)

    def _end_driver(self) -> None:
        """Stop the driver, at once unless it has reported its end, and free the slot of a cancelled attempt."""
        outcome, execution = self._outcome, self.execution
        has_reported = outcome is not None and outcome.payload is not None
        deadline = time.monotonic() + (EXIT_SECONDS if has_reported else 0)
        while self._compute.observe(self._handle).running and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._compute.cancel(self._handle)
        release_cancelled(self._database, execution.id, execution.attempt)

    def _load_state(self) -> tuple[State, str]:
        """Return the execution's state in the database and the message that belongs to it."""
        execution = self.execution
        try:
            with self._database.read() as session:
                executions = ExecutionRepository(session, execution.organization_id)
                current = executions.get(execution.project_id, execution.job_id, execution.id)
        except NotFound:
            return State.CANCELLED, "The execution was deleted."
        if current.attempt != execution.attempt:
            return State.CANCELLED, "The execution was retried: another attempt is running."
        return State(current.state), current.error_message or ""


def make_failure(sentence: str) -> Failure:
    """Return the exception that fails a step; Dagster shows its sentence without a stack trace."""
    sys.tracebacklimit = 0  # for the rest of the process, which does nothing but end the run
    return Failure(sentence, allow_retries=False)


class ProgressLog:
    """Writes a stage's progress to its step's log: when it has changed, at most every two seconds."""

    def __init__(self, context: OpExecutionContext) -> None:
        self._context = context
        self._line = ""
        self._logged_at = 0.0

    def show(self, stage: Message) -> None:
        line = ", ".join(f"{stage[name]:,} {name}" for name in ("rows", "pages", "errors") if stage.get(name))
        if line and line != self._line and time.monotonic() - self._logged_at >= LOG_SECONDS:
            self._context.log.info(line)
            self._line, self._logged_at = line, time.monotonic()


@resource(description="The driver of this run's execution.")
def driver_session() -> Generator[DriverSession]:
    settings = Settings()
    session = DriverSession(settings, open_database(settings), create_compute(settings))
    try:
        yield session
    finally:
        session.close()
