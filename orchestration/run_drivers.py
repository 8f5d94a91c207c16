"""The drivers of one Dagster run: one per asset that the run materializes."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from dagster import DagsterExecutionInterruptedError, OpExecutionContext, ResourceDefinition

from core.errors import SpindleError, Unavailable
from core.infra.database import Database
from core.infra.settings import Settings
from core.lifecycle.executions.retries import FailureCode
from core.lifecycle.outlines.outlines import JobOutline
from orchestration.acceptance import Acceptance, Attempt
from orchestration.compute.protocol import Compute
from orchestration.driver_session import DriverSession
from orchestration.outages import is_outage
from orchestration.outcomes import make_failure
from orchestration.running_attempts import RunningAttempts


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of the service that all runs of a process use."""

    settings: Settings
    database: Database
    compute: Compute
    attempts: RunningAttempts


class RunDrivers:
    """Opens a driver's session in the first step of its asset, and closes it after the last one, or a failed one.

    `interrupt` is set when the run is to end: a user has terminated it, or the service stops.
    """

    def __init__(
        self,
        service: Service,
        outlines: Mapping[str, JobOutline],
        interrupt: threading.Event,
        attempt: Attempt | None = None,
    ) -> None:
        self._service = service
        self._outlines = outlines
        self._interrupt = interrupt
        self._attempt = attempt
        self._sessions: dict[str, DriverSession] = {}

    @property
    def has_one_asset(self) -> bool:
        return len(self._outlines) == 1

    @contextmanager
    def open(self, context: OpExecutionContext, options: Mapping[str, Any] | None = None) -> Generator[DriverSession]:
        """Yield the session of the step's asset, with its driver started. `options` are those of the step `start`.

        Raises Failure with a sentence when the execution is not accepted or its driver cannot be started.
        """
        name = context.op_handle.path[0]
        try:
            if name not in self._sessions:
                self._sessions[name] = self._begin(context, self._outlines[name], options)
            yield self._sessions[name]
        except BaseException as error:
            # while Dagster closes the step, the run's end has the reason
            if name in self._sessions and not isinstance(error, GeneratorExit):
                self._end(self._sessions[name], error)
            raise

    def close(self) -> None:
        """End the sessions. Drivers go on where the run ends because Dagster could not store its events."""
        for session in self._sessions.values():
            if session.has_ended or session.is_terminated():
                session.close()
            else:
                session.leave()

    def _begin(
        self, context: OpExecutionContext, outline: JobOutline, options: Mapping[str, Any] | None
    ) -> DriverSession:
        service, ends_run, pause = self._service, partial(self._is_last, outline), partial(pause_run, self._interrupt)
        try:
            is_only = len(self._outlines) == 1
            acceptance = Acceptance(
                service.settings, service.database, outline, self._attempt, is_only, ends_run, pause
            )
            execution = acceptance.accept(context, options)
        except SpindleError as error:
            raise make_failure(error.sentence) from None
        session = DriverSession(
            service.settings,
            service.database,
            service.compute,
            service.attempts,
            outline,
            execution,
            context,
            ends_run,
            pause,
        )
        try:
            if self._attempt is not None and self._attempt.resumes:
                session.resume(context)
            else:
                session.start(context)
        except Unavailable:
            session.leave()
            raise
        except SpindleError as error:
            code = FailureCode.LAUNCH_FAILED if error.retryable else FailureCode.PIPELINE
            raise session.fail(error.sentence, code) from None
        except BaseException as error:
            self._end(session, error)
            raise
        return session

    def _end(self, session: DriverSession, error: BaseException) -> None:
        """Stop the driver, unless it works on without its run, because the database is away."""
        if is_outage(error):
            session.leave()
        else:
            session.close(is_interrupted=isinstance(error, DagsterExecutionInterruptedError))

    def _is_last(self, outline: JobOutline) -> bool:
        """Return whether a run is over without an asset: the others have ended, or read what it writes."""
        waiting = {outline.key}
        while readers := {each.key for each in self._outlines.values() if waiting & {*each.inputs}} - waiting:
            waiting |= readers
        others = {name for name, each in self._outlines.items() if each.key not in waiting}
        return all(name in self._sessions and self._sessions[name].has_ended for name in others)


def pause_run(interrupt: threading.Event, seconds: float) -> None:
    """Wait; raise Dagster's error where the run is to end."""
    if interrupt.wait(seconds):
        raise DagsterExecutionInterruptedError


def build_drivers(
    service: Service, outlines: Mapping[str, JobOutline], interrupt: threading.Event, attempt: Attempt | None = None
) -> ResourceDefinition:
    """Return the resource of a run's drivers; `outlines` are those of the run's assets by the names of their graphs."""

    def open_drivers(_context: Any) -> Generator[RunDrivers]:
        drivers = RunDrivers(service, outlines, interrupt, attempt)
        try:
            yield drivers
        finally:
            drivers.close()

    return ResourceDefinition(open_drivers)
