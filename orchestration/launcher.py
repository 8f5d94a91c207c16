"""`python -m orchestration.launcher`: empties the outbox into Dagster runs, and keeps the two sides in agreement.

May die at any point: a launch is taken for some seconds before it is made, so that after a crash it comes up again,
and then the run that may have been made already is looked for. What is launched twice all the same is claimed once.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import structlog

from core.errors import Unavailable
from core.executions.complete import cancel, fail
from core.executions.queries import claimed
from core.executions.reconcile import reconcile
from core.executions.states import State
from core.infra import logs
from core.infra.background import Outages, told_to_stop
from core.infra.database import Database, open_database
from core.infra.outbox import due, launched, orphaned, postponed
from core.infra.settings import Settings
from core.tables import Execution, Job, OutboxMessage, Project, now
from orchestration.client import DagsterClient, Run
from orchestration.compute import Compute, driver_name, execution_of
from orchestration.compute.local import LocalCompute

POLL_SECONDS = 0.1
AWAY_SECONDS = 2.0  # between looks while the database or Dagster cannot be reached
SWEEP_SECONDS = 2.0
TAKEN = timedelta(seconds=10)
RETRY_STEP, RETRY_MOST = timedelta(seconds=0.5), timedelta(seconds=15)
UNCLAIMED = timedelta(seconds=5)
EXIT = timedelta(seconds=20)
MOST_RUNS = 5

log = structlog.get_logger()


class Launcher:
    def __init__(self, settings: Settings, database: Database, dagster: DagsterClient, compute: Compute) -> None:
        self._settings = settings
        self._database = database
        self._dagster = dagster
        self._compute = compute
        self._up_since = now()
        self._pool = ThreadPoolExecutor(4)

    def run(self, stop: threading.Event) -> None:
        outages, swept, here = Outages(), 0.0, True
        while not stop.wait(POLL_SECONDS if here else AWAY_SECONDS):
            here = outages.surviving(self.launch_due)
            if time.monotonic() - swept >= SWEEP_SECONDS:
                swept = time.monotonic()
                for step in (self.relaunch, self.agree, self.stop_strays, self.reconcile):
                    outages.surviving(step)
        self._pool.shutdown(cancel_futures=True)

    def launch_due(self) -> None:
        with self._database.read() as session:
            if not due(session, now(), 1):
                return
        with self._database.write() as session:
            messages = due(session, now())
            for message in messages:
                postponed(session, message, TAKEN)
        list(self._pool.map(self._launch, messages))

    def relaunch(self) -> None:
        """Launches anew what no run has claimed and whose run is gone; what a person cancelled stays cancelled."""
        with self._database.read() as session:
            messages = orphaned(session, now() - UNCLAIMED)
        runs = self._dagster.runs(m.dagster_run_id for m in messages if m.dagster_run_id) if messages else {}
        for message in messages:
            run = runs.get(message.dagster_run_id or "")
            if run is None or run.status in ("FAILURE", "SUCCESS"):
                self._launch_again(message)
            elif run.status == "CANCELED":
                self._cancel(message.execution_id, message.attempt)

    def agree(self) -> None:
        """Ends the claimed executions whose run has ended without them, unless a driver is still at work for them."""
        with self._database.read() as session:
            executions = claimed(session)
        runs = self._dagster.runs(e.run_id for e in executions if e.run_id) if executions else {}
        for execution in executions:
            run = runs.get(execution.run_id or "")
            if run is not None and run.status == "CANCELED":
                self._cancel(execution.id, execution.attempt)
            elif (run is None or run.ended) and not self._driven(execution):
                sentence = "The execution lost its driver. Execute the job again."
                fail(self._database, execution.id, sentence, execution.attempt)
                log.warning("execution without run and driver", execution_id=execution.id)

    def stop_strays(self) -> None:
        """Stops drivers whose execution has ended without them, and whose run is not there to do it."""
        for name in self._compute.names():
            execution_id, attempt = execution_of(name)
            with self._database.read() as session:
                execution = session.get(Execution, execution_id)
            ended = execution is None or execution.attempt > attempt or self._left_alone(execution)
            if ended and self._compute.observe(name).running:
                log.warning("stopping a stray driver", driver=name)
                self._compute.cancel(name)

    def reconcile(self) -> None:
        for execution_id in reconcile(self._database, self._settings, now(), self._up_since):
            log.warning("execution lost its driver", execution_id=execution_id)

    def _launch(self, message: OutboxMessage) -> None:
        try:
            run_id = self._run_of(message) if message.tries else None
            run_id = run_id or self._dagster.launch(message.execution_id, message.attempt, self._tags(message))
        except Unavailable as error:
            log.warning("not launched", execution_id=message.execution_id, reason=error.sentence)
            with self._database.write() as session:
                postponed(session, message, min(RETRY_STEP * (message.tries + 1), RETRY_MOST))
            return
        with self._database.write() as session:
            launched(session, message, run_id)
        log.info("launched", execution_id=message.execution_id, run_id=run_id)

    def _run_of(self, message: OutboxMessage) -> str | None:
        """The run that was made before this launch could be noted."""
        return next((run.run_id for run in self._runs_of(message) if not run.ended), None)

    def _runs_of(self, message: OutboxMessage) -> list[Run]:
        return self._dagster.runs_tagged(
            {"spindle/execution": message.execution_id, "spindle/attempt": str(message.attempt)}
        )

    def _launch_again(self, message: OutboxMessage) -> None:
        if len(self._runs_of(message)) >= MOST_RUNS:
            sentence = "Dagster could not start a run; see its log there."
            fail(self._database, message.execution_id, sentence, message.attempt)
            return
        log.warning("launching again", execution_id=message.execution_id, gone=message.dagster_run_id)
        with self._database.write() as session:
            postponed(session, message, min(RETRY_STEP * message.tries, RETRY_MOST))

    def _tags(self, message: OutboxMessage) -> dict[str, str]:
        with self._database.read() as session:
            execution = session.get(Execution, message.execution_id)
            job = execution and session.get(Job, execution.job_id)
            project = execution and session.get(Project, execution.project_id)
        return {
            "spindle/execution": message.execution_id,
            "spindle/attempt": str(message.attempt),
            "spindle/project": project.slug if project else "",
            "spindle/job": job.slug if job else "",
        }

    def _cancel(self, execution_id: str, attempt: int) -> None:
        with self._database.read() as session:
            execution = session.get(Execution, execution_id)
        if execution is not None:
            sentence = "The run was terminated in Dagster."
            cancel(self._database, execution.organization_id, execution_id, sentence, attempt)

    def _driven(self, execution: Execution) -> bool:
        return self._compute.observe(driver_name(execution.id, execution.attempt)).running

    def _left_alone(self, execution: Execution) -> bool:
        """It has ended, and its run, or the driver by itself, had time enough to end the driver."""
        ended_at = execution.completed_at
        return State(execution.state).terminal and (ended_at is None or now() - ended_at > EXIT)


def main() -> None:
    logs.configure("launcher")
    settings = Settings()
    stop = told_to_stop()
    database = open_database(settings)
    Launcher(settings, database, DagsterClient(settings.ui_port), LocalCompute(settings.data)).run(stop)


if __name__ == "__main__":
    main()
