"""The driver of one execution, seen from its asset's steps in a Dagster run: started, followed and stopped with them.

The run only displays the driver's progress. The driver's last report is recorded through
core.lifecycle.executions.reports, as by its webhook; the first to arrive counts.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from dagster import (
    AssetCheckResult,
    AssetKey,
    DagsterRunStatus,
    Failure,
    OpExecutionContext,
)
from sqlalchemy.orm import Session

from core.data.datasets.versions import find_outcome
from core.definitions.identity.organizations import is_shared
from core.errors import NotFound, SpindleError, Unavailable
from core.infra.database import Database
from core.infra.files import check_folder
from core.infra.installation import open_guarded_storage
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.lifecycle.executions.attempts import get_end
from core.lifecycle.executions.logs import drop_traces
from core.lifecycle.executions.payload import CompletionPayload
from core.lifecycle.executions.reconcile import fail_overdue, is_overdue
from core.lifecycle.executions.reports import (
    cancel,
    fail,
    record_driver,
    record_report,
    release_cancelled,
    renew_claim,
    return_claim,
)
from core.lifecycle.executions.repository import ExecutionRepository
from core.lifecycle.executions.retries import FailureCode, explain_loss_with_service
from core.lifecycle.executions.spec import DriverEnvironments, build_spec, load_driver_secrets, load_launch_context
from core.lifecycle.outlines.outlines import JobOutline
from core.lifecycle.usage.bills import get_bill
from core.tables import DatasetVersion, Execution, ExecutionBill, now
from core.tables.executions import ExecutionDriver
from core.tables.states import State
from orchestration.acceptance import CANCELLED, TERMINATED
from orchestration.compute.protocol import Compute, DriverHandle, Launch
from orchestration.driver_environments import (
    EnvironmentFailed,
    install_environments,
    needs_environments,
)
from orchestration.driver_messages import Message
from orchestration.driver_output import DriverOutput, ProgressLog
from orchestration.metadata import (
    build_check_results,
    build_driver_metadata,
    build_failure_metadata,
    build_links,
    build_publication_metadata,
)
from orchestration.outages import is_outage, retry_outages
from orchestration.outcomes import ENDED_WITH_SERVICE, INTERRUPTED, STOPPED, Outcome, make_failure
from orchestration.running_attempts import RunningAttempts
from pipelines.environments.uv import IndexUnavailable

T = TypeVar("T")
POLL_SECONDS, WATCH_SECONDS = 0.1, 0.5
RENEWAL_SECONDS = 10.0  # between two signs of an execution that waits for a driver
REPORT_SECONDS = 2.0  # from the end of the execution to the driver's own message of it
EXIT_SECONDS = 15.0
LOG_LINES_READ, LAST_LOG_LINES = 500, 20  # most lines may be those of stack traces
CANCELLED_RUN = (DagsterRunStatus.CANCELING, DagsterRunStatus.CANCELED)


class DriverSession:
    """Holds the driver's handle and its messages over the steps of one asset.

    A cancelled execution cancels its run where `ends_run` finds no other asset running; else only its step fails.
    `pause` waits, and raises where the run is to end.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        compute: Compute,
        attempts: RunningAttempts,
        outline: JobOutline,
        execution: Execution,
        context: OpExecutionContext,
        ends_run: Callable[[], bool],
        pause: Callable[[float], None],
    ) -> None:
        self._settings = settings
        self._database = database
        self._compute = compute
        self._attempts = attempts
        self._outline = outline
        self._execution = execution
        self._context = context
        self._ends_run = ends_run
        self._pause = pause
        self._keys = {step.name: step.key for step in outline.steps}
        self._messages = compute.open_messages(self._handle)
        self._unread = deque[Message]()
        self._has_started = False
        self._stages: dict[str, Message] = {}
        self._outcome: Outcome | None = None
        self._launch: Launch | None = None
        self._watched_at = 0.0
        self._renewed_at = time.monotonic()
        self._ended_at: float | None = None
        self._is_closed = False
        self._went_with_service = False
        self.changes_asset = True  # found by complete()
        self._run_id = context.run_id
        self._is_shared = self._read(is_shared)
        self._output = DriverOutput(context.instance, context.run_id, compute, self._handle, self.shows_rows)

    @property
    def shows_rows(self) -> bool:
        """Whether previews of rows are shown: not where several organizations use the instance."""
        return not self._is_shared

    @property
    def publishes(self) -> bool:
        """Whether the execution's rows become those of the asset."""
        return self._execution.publishes

    @property
    def asset_key(self) -> AssetKey:
        return AssetKey(self._outline.key)

    def start(self, context: OpExecutionContext) -> None:
        """Start the driver of the claimed attempt."""
        execution = self._execution
        if execution.attempt > 1:  # the driver of a cancelled attempt may still be ending
            self._compute.cancel(DriverHandle(execution.organization_id, execution.id, execution.attempt - 1))
        context.log.info(
            f"Execution {execution.id}, attempt {execution.attempt}, agent revision {execution.agent_revision}."
        )
        storage = open_storage(self._settings.storage)
        launch = self._read(lambda session: load_launch_context(session, self._settings, storage, execution))
        environments = self._install_environments(context)
        if self._outcome is not None:
            return
        if execution.engine_build:
            context.log.info(f"Its driver runs version {execution.engine_build.version} of the engine.")
        self._launch = self._compute.launch(
            build_spec(self._settings, storage, execution, launch, environments),
            load_driver_secrets(self._settings, execution),
            self._messages.build_environment(self._run_id),
            partial(self._wait_for_driver, context),
        )
        if self._launch:
            self._record(context, self._launch)

    def resume(self, context: OpExecutionContext) -> None:
        """Follow the driver that the attempt had when the launcher ended; give back an attempt without one.

        Raises Failure: another run will claim an attempt that was given back.
        """
        execution = self._execution
        context.log.info(f"Execution {execution.id} goes on to be shown after a restart of the service.")
        if execution.driver is None and execution.state == State.PENDING:
            self._compute.cancel(self._handle)  # it may have been launched in the last moment
            return_claim(self._database, execution.id, execution.attempt, self._run_id)
            self._is_closed = True
            raise make_failure("The service was restarted before the execution had a driver. Another run has it now.")
        if not self._compute.outlives_service:  # such as on a machine that lost its power
            self._went_with_service = not self._compute.observe(self._handle).running
        self._compute.follow(self._handle)

    def _install_environments(self, context: OpExecutionContext) -> DriverEnvironments:
        """Return the folders of packages and plugins of the execution; raise Failure where one cannot be made.

        While they are installed, the claim is renewed and a cancel is noticed.
        """
        execution, installed = self._execution, Future[DriverEnvironments]()
        if not needs_environments(execution):
            return DriverEnvironments()
        threading.Thread(target=install_environments, args=(self._settings, execution, installed), daemon=True).start()
        while not installed.done() and self._watch_claim(context):
            self._pause(POLL_SECONDS)
        if self._outcome is not None:
            return DriverEnvironments()
        try:
            return installed.result()
        except EnvironmentFailed as error:
            raise self.fail(str(error)) from error
        except IndexUnavailable as error:
            raise self.fail(str(error), FailureCode.UNAVAILABLE) from error

    def _record(self, context: OpExecutionContext, launch: Launch) -> None:
        execution = self._execution
        if launch.waited_seconds > RENEWAL_SECONDS:
            renew_claim(self._database, execution.id, execution.attempt)
        driver = ExecutionDriver(launch.driver, launch.source, round(launch.waited_seconds, 1))
        try:
            record_driver(self._database, execution.id, execution.attempt, driver)
        except Unavailable as error:  # it is only shown
            context.log.warning(f"The record of the execution does not show its driver: {error}")

    def _wait_for_driver(self, context: OpExecutionContext, seconds: float) -> bool:
        """Wait while all drivers are busy; return whether the execution still wants one."""
        if self._watched_at == 0.0:
            context.log.info("The execution waits for a driver.")
        self._pause(seconds)
        return self._watch_claim(context)

    def _watch_claim(self, context: OpExecutionContext) -> bool:
        """Renew the claim of an execution without a driver; return whether it still wants one."""
        self._watched_at = time.monotonic()
        with suppress(Unavailable):
            if self._watched_at - self._renewed_at > RENEWAL_SECONDS:
                self._renewed_at = self._watched_at
                renew_claim(self._database, self._execution.id, self._execution.attempt)
            state, sentence = self._find_state()
            if state is State.CANCELLED:
                self._cancel_run(context)
            if state.terminal:
                self._outcome = Outcome(state, sentence)
        return self._outcome is None

    def await_start(self, context: OpExecutionContext) -> dict[str, Any]:
        """Wait until the driver has started; return it and links as metadata, or raise Failure."""
        while not self._has_started and self._outcome is None:
            self._read_messages()
            self._watch(context)
        if not self._has_started:
            self._raise_unless_completed()
        found = build_driver_metadata(self._launch) if self._launch else {}
        return build_links(self._settings, self._execution) | found

    def follow_stage(self, context: OpExecutionContext, name: str) -> Message:
        """Wait for the end of one stage, logging its progress; return its last message, or raise Failure.

        A stage that the execution's pipeline does not have is over at once: the pipeline may have changed since.
        """
        key = self._keys.get(name, "")
        title = next((step.title for step in self._execution.steps if step.key == key), None)
        if title is None:
            changed = "The execution's pipeline has no such stage: the agent was changed since."
            context.log.info(changed if self.publishes else "The execution does not publish: it leaves out saves.")
            return {}
        context.log.info(title)
        log = ProgressLog(context)
        while True:
            self._read_messages()
            stage = self._stages.get(key, {})
            log.show(stage)
            if stage.get("state") == State.COMPLETED:
                return stage
            if self._outcome is not None:
                if self._find_failed_stage() in (key, None):
                    self._raise_unless_completed()
                return stage
            self._watch(context)

    def await_end(self, context: OpExecutionContext) -> None:
        """Wait for the driver's last report, which is recorded."""
        while self._outcome is None:
            self._read_messages()
            self._watch(context)

    def list_check_results(self) -> Iterable[AssetCheckResult]:
        """Return the results of the pipeline's checks; empty before the driver has computed them."""
        return build_check_results(self._outline.checks, self._outcome.list_checks() if self._outcome else ())

    def complete(self, context: OpExecutionContext) -> dict[str, Any]:
        """Return the metadata of the published asset; raise Failure when the execution has failed."""
        self._output.copy()
        self._raise_unless_completed()
        payload = (self._outcome.payload if self._outcome else None) or {}
        execution, bill, version = self._read(self._load_end)
        self.changes_asset = execution.publishes and "output_dataset_path" in execution.metrics
        output = self._stages.get(self._outline.steps[-1].key, {}) if self._outline.steps else {}
        for warning in execution.metrics.get("warnings", ()):
            context.log.warning(warning)
        return build_publication_metadata(
            self._outline, execution, payload, bill, output if self.shows_rows else {}, version
        ) | build_links(self._settings, execution)

    def fail(self, sentence: str, code: FailureCode = FailureCode.PIPELINE) -> Failure:
        """End the attempt as failed for this reason."""
        execution = self._execution
        retry_outages(partial(fail, self._database, execution.id, sentence, execution.attempt, code), self._pause)
        self._outcome = Outcome(State.FAILED, sentence)
        return self._make_failure(sentence)

    @property
    def has_ended(self) -> bool:
        return self._outcome is not None

    def is_terminated(self) -> bool:
        """Return whether a user has terminated the run; False also while Dagster's storage does not answer."""
        try:
            run = self._context.instance.get_run_by_id(self._context.run_id)
        except Exception as error:
            if not is_outage(error):
                raise
            return False
        return run is not None and run.status in CANCELLED_RUN

    def leave(self) -> None:
        """End the run's part while a database is away: the driver continues, and reports its end by its webhook."""
        if not self._is_closed:
            self._is_closed = True

    def close(self, is_interrupted: bool = False) -> None:
        """Stop the driver, after some time to exit once it has reported its end.

        An attempt that is interrupted by a stop of the service is followed by another one at the next start.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._outcome is None:
                self._record_interruption(is_interrupted)
        finally:
            self._end_driver()
            self._messages.close()

    @property
    def _handle(self) -> DriverHandle:
        return DriverHandle(self._execution.organization_id, self._execution.id, self._execution.attempt)

    def _read_messages(self) -> None:
        self._unread.extend(self._messages.read())
        while self._unread:
            message = self._unread[0]
            if message.get("type") == "stage":
                self._stages[message["key"]] = message
            elif message.get("type") == "started":
                self._has_started = True
            elif message.get("type") == "finished" and not self._record_end(message):
                return
            self._unread.popleft()

    def _record_end(self, message: Message) -> bool:
        """Record the driver's last report; return False while the database does not answer."""
        payload = CompletionPayload.model_validate(message["payload"])
        execution = self._execution
        try:
            state = record_report(
                self._database,
                open_guarded_storage(self._settings, self._database),
                execution.organization_id,
                execution.project_id,
                execution.job_id,
                payload,
            )
            sentence = message.get("message") or ""
            if state != message["state"]:
                state, sentence = self._load_state()
        except Unavailable:
            return False
        except NotFound:  # the execution was deleted, which `_check` notices too
            return True
        except SpindleError as error:
            self.fail(f"The driver's report could not be recorded: {error.sentence}")
            return True
        self._outcome = Outcome(state, sentence, message["payload"], message.get("line"))
        return True

    def _watch(self, context: OpExecutionContext) -> None:
        """Check twice a second that the driver lives, and at once when the execution has ended otherwise."""
        self._pause(POLL_SECONDS)
        if time.monotonic() - self._watched_at < WATCH_SECONDS and not self._has_just_ended():
            return
        self._watched_at = time.monotonic()
        self._output.copy()
        with suppress(Unavailable):  # the driver works on, and so does the run
            self._check(context)

    def _check(self, context: OpExecutionContext) -> None:
        if is_overdue(self._execution, now()):
            fail_overdue(self._database, self._execution)
        state, sentence = self._find_state()
        if state is State.CANCELLED:
            self._cancel_run(context)
        if state.terminal and self._ended_at is None:
            self._ended_at = time.monotonic()
        has_waited = self._ended_at is not None and time.monotonic() - self._ended_at > REPORT_SECONDS
        is_stopped = state is State.CANCELLED or (state is State.FAILED and is_overdue(self._execution, now()))
        if is_stopped or (state.terminal and has_waited):
            self._outcome = Outcome(state, sentence)
        if is_stopped:
            self._end_driver()  # at once: the steps that are left may take longer to end
        if not state.terminal:
            self._check_alive(context)

    def _check_alive(self, context: OpExecutionContext) -> None:
        status = self._compute.observe(self._handle)
        if status.running:
            return
        self._pause(2 * POLL_SECONDS)  # its last messages may still be on their way from a pod's log
        self._read_messages()
        if self._outcome is None and not self._unread:  # a report that could not be recorded is one
            if lines := [*drop_traces(self._compute.read_logs(self._handle, tail=LOG_LINES_READ))][-LAST_LOG_LINES:]:
                context.log.error("\n".join(("The driver's last log lines:", *lines)))
            if self._went_with_service:
                self.fail(ENDED_WITH_SERVICE, explain_loss_with_service(self._execution))
                return
            how = f"with exit code {status.exit_code}" if status.exit_code is not None else "unexpectedly"
            sentence = f"The driver ended {how} before it had finished. The execution's log tells what it did last."
            self.fail(status.reason or sentence, FailureCode.DRIVER_LOST)

    def _raise_unless_completed(self) -> None:
        outcome = self._outcome
        if outcome is not None and outcome.state is not State.COMPLETED:
            if outcome.state is State.CANCELLED:
                self._cancel_run(self._context)
            raise self._make_failure(outcome.sentence or "The driver reported a failure.")

    def _read(self, load: Callable[[Session], T]) -> T:
        """Return the result of `load`, once the database answers."""

        def read() -> T:
            with self._database.read() as session:
                return load(session)

        return retry_outages(read, self._pause)

    def _load_end(self, session: Session) -> tuple[Execution, ExecutionBill, DatasetVersion | None]:
        execution = session.get(Execution, self._execution.id) or self._execution
        version = find_outcome(session, execution.dataset_id, execution.id)
        return execution, get_bill(session, execution), version

    def _make_failure(self, sentence: str) -> Failure:
        """Return the exception for a step, with where and why the execution has failed as metadata."""
        execution, stage = self._execution, self._find_failed_stage()
        known = [self._outcome and self._outcome.line, *(step.line for step in execution.steps if step.key == stage)]
        line = next(filter(None, known), None)
        with suppress(Unavailable), self._database.read() as session:
            execution = session.get(Execution, execution.id) or execution
        return make_failure(sentence, build_failure_metadata(self._settings, execution, self._run_id, line))

    def _cancel_run(self, context: OpExecutionContext) -> None:
        """Let the run end as cancelled, unless other assets go on in it or a user has terminated it."""
        if self._ends_run() and not self.is_terminated():
            context.instance.report_run_canceling(context.run, CANCELLED)

    def _find_failed_stage(self) -> str | None:
        return self._outcome.find_failed_stage(self._stages, self._execution.steps) if self._outcome else None

    def _record_interruption(self, is_interrupted: bool) -> None:
        """Record that the run ends before its driver: terminated, stopped with the service, or by an error here."""
        execution = self._execution
        with suppress(NotFound):  # the execution was deleted
            if self.is_terminated():
                cancel(self._database, execution.organization_id, execution.id, TERMINATED, execution.attempt)
            elif is_interrupted:
                fail(self._database, execution.id, STOPPED, execution.attempt, FailureCode.STOPPED)
            else:
                fail(self._database, execution.id, self._find_reason(), execution.attempt, FailureCode.DRIVER_LOST)

    def _find_reason(self) -> str:
        """Return why the run ends before its driver: of errors here, that of a full disk is the one for users."""
        try:
            check_folder(self._settings.data, "data folder")
        except Unavailable as error:
            return f"The run ended before its driver did: {error.sentence}"
        return INTERRUPTED

    def _end_driver(self) -> None:
        """Stop the driver, at once unless it has reported its end, and free the slot of a cancelled attempt."""
        outcome, execution = self._outcome, self._execution
        has_reported = outcome is not None and outcome.payload is not None
        deadline = time.monotonic() + (EXIT_SECONDS if has_reported else 0)
        while self._compute.observe(self._handle).running and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._output.copy()
        self._compute.cancel(self._handle)
        self._output.copy(is_complete=True)
        release_cancelled(self._database, execution.id, execution.attempt)

    def _has_just_ended(self) -> bool:
        return self._ended_at is None and self._is_running() is False

    def _is_running(self) -> bool | None:
        return self._attempts.is_running(self._execution.id, self._execution.attempt)

    def _find_state(self) -> tuple[State, str]:
        """Return RUNNING, without a query, while the attempt runs; else the result of `_load_state`."""
        return (State.RUNNING, "") if self._is_running() else self._load_state()

    def _load_state(self) -> tuple[State, str]:
        """Return the attempt's state in the database and the message that belongs to it."""
        execution = self._execution
        try:
            with self._database.read() as session:
                executions = ExecutionRepository(session, execution.organization_id)
                current = executions.get(execution.project_id, execution.job_id, execution.id)
                return get_end(session, current, execution.attempt)
        except NotFound:
            return State.CANCELLED, "The execution was deleted."
