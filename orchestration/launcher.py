"""`python -m orchestration.launcher`: launch the outbox as Dagster runs, and keep executions, runs and drivers in sync.

The runs are threads of this process, which may die at any point: the next one resumes them. It stores the id of a run
before it starts it, and starts another one where no run has claimed the attempt. Where an attempt is launched twice
nevertheless, one run claims it and the other ends.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import structlog
from dagster import DagsterRunStatus
from sqlalchemy import select

from core.definitions.cron_jobs.scheduler_choice import has_cluster_cron_jobs
from core.definitions.schedules.switches import agree_on_switches, has_new_switch, record_switch
from core.infra import logs
from core.infra.background import OutageLog, create_shutdown_event
from core.infra.connection_pool import close_idle_connections
from core.infra.files import check_folder
from core.infra.heartbeats import Heartbeats
from core.infra.idle import MAX_REST_SECONDS
from core.infra.installation import exit_if_foreign, open_guarded_storage
from core.infra.instances import Membership
from core.infra.settings import Settings
from core.integrations.cleanup import Cleaner
from core.lifecycle.backfills.service import advance_backfills
from core.lifecycle.executions.outbox import (
    LAUNCHES_AT_ONCE,
    fetch_due,
    fetch_unclaimed,
    has_unlaunched,
    mark_launched,
    postpone,
)
from core.lifecycle.executions.reconcile import Sighting, admit_waiting, fail_lost, fail_overdue, list_overdue
from core.lifecycle.executions.reports import cancel, fail, release_cancelled, take_over_claim
from core.lifecycle.executions.repository import list_claimed, list_stopping
from core.lifecycle.executions.retries import FailureCode, explain_loss_with_service
from core.lifecycle.firing.cron_jobs import fire_overdue_calls
from core.lifecycle.firing.deadlines import check_deadlines
from core.lifecycle.firing.new_inputs import NewInputs
from core.lifecycle.firing.once import execute_scheduled
from core.lifecycle.firing.schedules import fire_overdue
from core.lifecycle.firing.waiting import submit_waiting
from core.lifecycle.firing.work import find_next_time
from core.tables import Dataset, Execution, OutboxMessage, now
from core.tables.states import State
from orchestration.acceptance import Attempt
from orchestration.client import DagsterClient, ScheduleSwitch
from orchestration.compute.local import LocalCompute
from orchestration.compute.protocol import DriverHandle
from orchestration.dagster_internals import import_before_fork
from orchestration.instance import open_few_connections
from orchestration.outcomes import ENDED_WITH_SERVICE
from orchestration.run_drivers import Service
from orchestration.run_server import RunServer
from orchestration.run_tags import EXECUTION, INSTANCE
from orchestration.runs import RunHost, open_run_host, preload
from pipelines.registry import load_plugins

POLL_SECONDS = 0.1
OUTAGE_POLL_SECONDS = 2.0  # while the database or Dagster cannot be reached
SYNC_SECONDS = 2.0
RETRY_STEP, RETRY_MAX = timedelta(seconds=0.5), timedelta(seconds=15)
CLAIM_TIMEOUT = timedelta(seconds=5)
EXIT_TIMEOUT = timedelta(seconds=20)
CANCEL_TIMEOUT = timedelta(seconds=4)  # of a cancelled execution's run to stop its driver
OVERDUE_GRACE = timedelta(seconds=1)  # in which the run itself ends an attempt whose time is over
PROBE_SECONDS = 2.0
CRON_JOB_SECONDS = 60.0
STOP_SECONDS = 12  # for runs to stop their drivers
ENDS_PERIOD = timedelta(seconds=10)
CORRECTED_AFTER_START = timedelta(days=1)
MAX_RUNS = 5  # of one attempt that ended before they claimed it
OTHERS_SECONDS = 2.0  # between two looks for executions that other instances have accepted
WAITING_RUNS = 2  # of executions that will have a driver next, where there are other instances
LOST_INSTANCE = "The instance of the service that executed it is gone. Another one executes it again."

log = structlog.get_logger()


class Launcher:
    """Has no state of importance: that is in the database, in Dagster and in the compute."""

    def __init__(self, service: Service, runs: RunHost, schedules: DagsterClient, members: Membership) -> None:
        self._members = members
        self._settings = settings = service.settings
        self._database = database = service.database
        self._compute = service.compute
        self._runs = runs
        self._schedules = schedules
        self._new_inputs = NewInputs(database, settings)
        self._started_at = now()
        self._up_since: datetime | None = None  # drivers could report since then
        self._looked_at = time.monotonic()
        self._ends_seen, self._ends_agree = now() - CORRECTED_AFTER_START, False
        api = f"http://{settings.api.local_host}:{settings.api.port}"
        self._probe = httpx.Client(base_url=api, timeout=PROBE_SECONDS, trust_env=False)
        self._next_switches = self._next_cron_jobs = 0.0
        self._shown_switches: Mapping[str, bool] = {}
        self._launching, self._syncing = database.watch_commits(), database.watch_commits()
        self._admitting = database.watch_commits()

    def run(self, stop: threading.Event) -> None:
        outages, synced_at, available, heartbeats = OutageLog(), 0.0, True, Heartbeats(self._settings.data)
        while not stop.wait(POLL_SECONDS if available else OUTAGE_POLL_SECONDS):
            heartbeats.beat("launcher")
            outages.run_step(self.admit_after_commits)
            available = outages.run_step(self.launch_due)
            if time.monotonic() - synced_at >= SYNC_SECONDS:
                synced_at = time.monotonic()
                close_idle_connections()
                for step in (self.kill_orphans, *((self.sync_cron_jobs,) if self._members.leads else ())):
                    outages.run_step(step)
                    heartbeats.beat("launcher")
                if not self._syncing.is_resting():
                    self._sync(outages, heartbeats)
                elif self._members.leads:
                    outages.run_step(self.follow_switches)
        self._probe.close()
        for watch in (self._launching, self._syncing, self._admitting):
            watch.close()

    def _sync(self, outages: OutageLog, heartbeats: Heartbeats) -> None:
        """Follow executions and times; rest where there are none."""
        for step in (
            self.sync_run_states,
            self.relaunch_unclaimed,
            self.interrupt_cancelled,
            self.correct_ends,
            self.release_slots,
            self.fail_lost,
            self.stop_overdue,
            self.admit_waiting,
            *(self._list_duties_of_one() if self._members.leads else ()),
            self.rest_without_work,
        ):
            outages.run_step(step)
            heartbeats.beat("launcher")

    def _list_duties_of_one(self) -> Iterable[Callable[[], None]]:
        """Return the steps of the instance that leads."""
        return (
            self.sync_schedules,
            self.check_deadlines,
            self.execute_on_new_input,
            self.sync_switches,
            self.advance_backfills,
            self.show_restored,
        )

    def rest_without_work(self) -> None:
        if not self._ends_agree:
            return
        at = now()
        with self._database.read() as session:
            next_time = find_next_time(session, at)
        if next_time is None:
            self._syncing.rest()
        elif next_time > at:
            self._syncing.rest((next_time - at).total_seconds())

    def launch_due(self) -> None:
        if self._launching.is_resting():
            return
        with self._database.read() as session:
            if not has_unlaunched(session):
                self._launching.rest(MAX_REST_SECONDS if self._members.is_alone else OTHERS_SECONDS)
                return
            if not fetch_due(session, now(), 1):
                return
        room = self._count_places() - len(self._runs.threads)
        if room <= 0:
            return
        launches: list[tuple[str, Attempt]] = []
        with self._database.write() as session:
            for message in fetch_due(session, now(), min(room, LAUNCHES_AT_ONCE)):
                run_id = str(uuid4())
                mark_launched(session, message, run_id)
                launches.append((run_id, Attempt(message.execution_id, message.attempt)))
        for run_id, attempt in launches:
            self._runs.launch(run_id, attempt)
            log.info("launched", execution_id=attempt.execution_id, run_id=run_id)

    def _count_places(self) -> int:
        """Return the most runs at once: with other instances no more than get a driver here soon."""
        drivers = self._compute.count_places() if isinstance(self._compute, LocalCompute) else None
        if drivers is None or self._members.is_alone:
            return self._settings.dagster.runs
        return min(drivers + WAITING_RUNS, self._settings.dagster.runs)

    def _take_over(self, execution: Execution) -> None:
        """Go on with an execution of a lost instance; launch it again where its driver was lost too."""
        log.warning("taking over", execution_id=execution.id, instance_id=execution.instance_id)
        if not self._compute.outlives_service:
            fail(self._database, execution.id, LOST_INSTANCE, execution.attempt, FailureCode.STOPPED)
        elif take_over_claim(self._database, execution) and execution.run_id:
            self._runs.take_over(execution.run_id)

    def interrupt_cancelled(self) -> None:
        if self._runs.threads and not self._members.is_alone:
            self._runs.interrupt_cancelled()

    def relaunch_unclaimed(self) -> None:
        """Launch attempts again whose run ended before it claimed them; cancel those whose run a user cancelled."""
        with self._database.read() as session:
            messages = fetch_unclaimed(session, now() - CLAIM_TIMEOUT)
        runs = self._runs.find_runs(m.dagster_run_id for m in messages if m.dagster_run_id) if messages else {}
        for message in messages:
            run = runs.get(message.dagster_run_id or "")
            is_mine = self._members.is_mine(message.instance_id or (run.tags.get(INSTANCE) if run else None))
            if not is_mine or self._runs.threads.is_alive(message.dagster_run_id or ""):
                continue
            if run is not None and run.status is DagsterRunStatus.CANCELED:
                self._cancel(message.execution_id, message.attempt)
            elif run is None or run.status is not DagsterRunStatus.CANCELING:  # Dagster notices its end only later
                self._relaunch(message)

    def sync_run_states(self) -> None:
        """End the claimed executions whose run has ended before them, unless their driver still works."""
        with self._database.read() as session:
            claimed = [each for each in list_claimed(session) if self._members.is_mine(each.instance_id)]
        executions = [each for each in claimed if not self._members.is_lost(each.instance_id)]
        for execution in claimed:
            if execution not in executions:
                self._take_over(execution)
        runs = self._runs.find_runs(e.run_id for e in executions if e.run_id) if executions else {}
        for execution in executions:
            run = runs.get(execution.run_id or "")
            if run is not None and run.status is DagsterRunStatus.CANCELED:
                self._cancel(execution.id, execution.attempt)
            elif run is not None and not run.is_finished:
                continue
            elif self._compute.observe(_make_handle(execution)).running:
                self._compute.follow(_make_handle(execution))
            else:
                self._fail_without_driver(execution)
                log.warning("execution without run and driver", execution_id=execution.id)

    def _fail_without_driver(self, execution: Execution) -> None:
        """Launch an execution again whose driver ended with the service, which has been started again since."""
        claimed_at = execution.claimed_at or execution.updated_at
        if not self._compute.outlives_service and claimed_at < self._started_at:
            sentence, code = ENDED_WITH_SERVICE, explain_loss_with_service(execution)
        else:
            sentence, code = "The execution lost its driver. Execute the job again.", FailureCode.DRIVER_LOST
        fail(self._database, execution.id, sentence, execution.attempt, code)

    def correct_ends(self) -> None:
        """Let the runs that nobody executes any more end as their executions did."""
        is_quiet = not self._runs.threads
        if self._ends_agree and not is_quiet and now() - self._ends_seen < ENDS_PERIOD:
            self._ends_agree = False
            return
        since, self._ends_agree = self._ends_seen, is_quiet
        self._ends_seen = now()
        for run in self._runs.find_doubtful(since - ENDS_PERIOD):
            if not self._members.is_mine(run.tags.get(INSTANCE)):
                continue
            with self._database.read() as session:
                execution = session.get(Execution, run.tags[EXECUTION])
            if execution is not None and self._runs.correct_end(run, execution):
                log.warning("a run did not show the end of its execution", execution_id=execution.id, run_id=run.run_id)

    def kill_orphans(self) -> None:
        """Stop drivers whose execution has ended, and delete their files, where no run is there to do so."""
        if self._compute.outlives_service and not self._members.leads:  # all instances see the same drivers
            return
        for handle in self._compute.list():
            with self._database.read() as session:
                execution = session.get(Execution, handle.execution_id)
            ended = execution is None or _has_overrun(execution, handle.attempt)
            if ended:
                log.warning("stopping an orphaned driver", execution_id=handle.execution_id, attempt=handle.attempt)
                self._compute.cancel(handle)

    def release_slots(self) -> None:
        """Free the slots of cancelled executions whose run is not there to do so.

        That is when their driver is gone, or was silent for so long that it counts as lost.
        """
        with self._database.read() as session:
            executions = [each for each in list_stopping(session) if self._members.is_mine(each.instance_id)]
        lost = timedelta(seconds=self._settings.executions.lost_after_seconds)
        for execution in executions:
            ended_at = execution.completed_at or execution.updated_at
            is_silent = now() - max(execution.heartbeat_at or ended_at, ended_at) > lost
            if now() - ended_at < CANCEL_TIMEOUT:
                continue
            if is_silent or not self._compute.observe(_make_handle(execution)).running:
                release_cancelled(self._database, execution.id, execution.attempt)

    def fail_lost(self) -> None:
        """Fail the executions whose drivers were silent while the API and the database were up.

        A long pause between two calls ends the time in which both are known to have been up.
        """
        pause, self._looked_at = time.monotonic() - self._looked_at, time.monotonic()
        up_since = self._up_since if pause < self._settings.executions.lost_after_seconds / 2 else None
        self._up_since = None  # unless both answer, and reports can be stored
        check_folder(self._settings.data, "data folder")
        if not self._is_api_up():
            return
        for execution_id in fail_lost(self._database, self._settings, now(), up_since or now(), self._find_driver):
            log.warning("execution lost its driver", execution_id=execution_id)
        self._up_since = up_since or now()

    def _find_driver(self, execution: Execution) -> Sighting | None:
        if not self._members.is_mine(execution.instance_id):
            return None
        status = self._compute.observe(_make_handle(execution))
        if status.running:
            return Sighting(True, "it is still there, without a word")
        if execution.state == State.PENDING and self._runs.threads.is_alive(execution.run_id or ""):
            return Sighting(True, "its run has not started it")
        if status.reason:
            return Sighting(False, f"this is known of its end: {status.reason.rstrip('.')}")
        code = "" if status.exit_code is None else f" with exit code {status.exit_code}"
        return Sighting(False, f"its process has ended{code}")

    def check_deadlines(self) -> None:
        check_deadlines(self._database, now())

    def execute_on_new_input(self) -> None:
        self._new_inputs.execute_due()

    def sync_schedules(self) -> None:
        """Fire overdue ticks of schedules and cron jobs, and submit jobs that had to wait."""
        at = now()
        for call in fire_overdue_calls(self._database, at):
            log.info("fired overdue tick of a cron job", call_id=call.call_id, outcome=call.message)
        for tick in fire_overdue(self._database, self._settings, at):
            log.info("fired overdue tick", tick_id=tick.tick_id, state=tick.state)
        submit_waiting(self._database, self._settings)
        execute_scheduled(self._database, self._settings, at)

    def sync_switches(self) -> None:
        """Let schedules be on and off in Dagster as they are here; whichever switch was turned last holds."""
        started = time.monotonic()
        # a schedule on which both never agreed would win over a click, so it is looked at soon
        if started < self._next_switches and not has_new_switch(self._database):
            return
        switches = self._list_switches()
        shown = {name: switch.enabled for name, switch in switches.items()}
        for name, enabled in agree_on_switches(self._database, shown).items():
            self._schedules.turn_schedule(name, switches[name], enabled)
            record_switch(self._database, name, enabled)
            shown[name] = enabled
        self._shown_switches = shown or self._shown_switches  # none while the code server loads

    def follow_switches(self) -> None:
        """Look, in a rest, whether somebody has turned a switch in Dagster, which commits nothing here."""
        if self._shown_switches and time.monotonic() >= self._next_switches:
            shown = {name: switch.enabled for name, switch in self._list_switches().items()}
            if shown and shown != self._shown_switches:
                self._next_switches = 0.0
                self.sync_switches()

    def _list_switches(self) -> Mapping[str, ScheduleSwitch]:
        started = time.monotonic()
        switches = self._schedules.list_schedules()
        # at most a twentieth of the time, however many schedules there are
        self._next_switches = started + 20 * (time.monotonic() - started)
        return switches

    def sync_cron_jobs(self) -> None:
        """Delete the CronJobs of a cluster that no cron job has any more."""
        if not has_cluster_cron_jobs(self._settings) or time.monotonic() < self._next_cron_jobs:
            return
        from core.definitions.cron_jobs.kubernetes import delete_orphans  # its client takes a second to import

        self._next_cron_jobs = time.monotonic() + CRON_JOB_SECONDS
        delete_orphans(self._settings, self._database)

    def stop_overdue(self) -> None:
        """End attempts that take longer than their timeout, and whose run is not there to do so."""
        for execution in list_overdue(self._database, now(), OVERDUE_GRACE):
            if not self._members.is_mine(execution.instance_id):
                continue
            log.warning("stopping an attempt at its timeout", execution_id=execution.id, attempt=execution.attempt)
            fail_overdue(self._database, execution)
            self._compute.cancel(_make_handle(execution))

    def admit_after_commits(self) -> None:
        """Admit executions to the room that others may have left."""
        if not self._admitting.is_resting():
            self._admitting.rest()
            self.admit_waiting()

    def admit_waiting(self) -> None:
        admit_waiting(self._database)

    def advance_backfills(self) -> None:
        advance_backfills(self._database, self._settings)

    def show_restored(self) -> None:
        """Show the restored versions of jobs' tables in Dagster."""
        with self._database.read() as session:
            unshown = Dataset.unshown_version_id.is_not(None)
            found = session.scalars(select(Dataset.id).where(unshown).limit(LAUNCHES_AT_ONCE)).all()
        for dataset_id in found:
            self._runs.show_restored(dataset_id)

    def _is_api_up(self) -> bool:
        try:
            return self._probe.get("/livez").is_success
        except httpx.TransportError:
            return False

    def _relaunch(self, message: OutboxMessage) -> None:
        if message.tries >= 2 * MAX_RUNS - 1:  # launches and postponements
            sentence = "Dagster could not start a run; see its log there."
            fail(self._database, message.execution_id, sentence, message.attempt, FailureCode.LAUNCH_FAILED)
            return
        log.warning("launching again", execution_id=message.execution_id, ended_run_id=message.dagster_run_id)
        if message.dagster_run_id:
            self._runs.delete_run(message.dagster_run_id)
        with self._database.write() as session:
            postpone(session, message, min(RETRY_STEP * message.tries, RETRY_MAX))

    def _cancel(self, execution_id: str, attempt: int) -> None:
        with self._database.read() as session:
            execution = session.get(Execution, execution_id)
        if execution is not None:
            sentence = "The run was terminated in Dagster."
            cancel(self._database, execution.organization_id, execution_id, sentence, attempt)


def _make_handle(execution: Execution) -> DriverHandle:
    return DriverHandle(execution.organization_id, execution.id, execution.attempt)


def _has_overrun(execution: Execution, attempt: int) -> bool:
    """Whether the attempt ended so long ago that its driver should have stopped."""
    if execution.attempt > attempt:
        return execution.retry_at is None or now() - execution.updated_at > EXIT_TIMEOUT
    state, ended_at = State(execution.state), execution.completed_at
    patience = CANCEL_TIMEOUT if state is State.CANCELLED else EXIT_TIMEOUT
    return state.terminal and (ended_at is None or now() - ended_at > patience)


def main() -> None:
    logs.configure("launcher")
    import_before_fork()
    load_plugins()
    preload()
    sys.tracebacklimit = 0  # Dagster shows sentences; our own log says how many frames it wants
    settings = Settings()
    exit_if_foreign(settings)
    home = Path(os.environ["DAGSTER_HOME"])
    open_few_connections(settings, settings.database.launcher_connections)
    stop = create_shutdown_event()
    Heartbeats(settings.data).start_pulse("launcher")
    members = Membership(settings)
    with open_run_host(settings) as runs:
        gc.freeze()
        service, server = runs.service, RunServer(home, runs)
        members.start()
        runs.resume_all(members.is_mine)
        storage = open_guarded_storage(settings, service.database)
        cleaner = Cleaner(settings, service.database, storage, runs.delete_old)
        started = ((server.serve, ()), (cleaner.run, (stop, lambda: members.leads)), (runs.sweep_output, (stop,)))
        for run, arguments in started:
            threading.Thread(target=run, args=arguments, name=run.__qualname__, daemon=True).start()
        keeper = _start_keeper(service, stop)
        try:
            Launcher(service, runs, DagsterClient(settings.dagster.ui_port), members).run(stop)
            if not service.compute.outlives_service:
                _await_runs(runs, settings.executions.stop_seconds)
        finally:
            stop.set()
            _end_runs(service, runs, server, members)
            if keeper is not None:
                keeper.join()


def _start_keeper(service: Service, stop: threading.Event) -> threading.Thread | None:
    """Keep the hosts of drivers on this machine, in a thread."""
    if not isinstance(service.compute, LocalCompute):
        return None
    thread = threading.Thread(target=service.compute.hosts.run, args=(stop,), name="hosts")
    thread.start()
    return thread


def _await_runs(runs: RunHost, seconds: float) -> None:
    """Wait for the executions that run; no longer after another signal."""
    hurry = create_shutdown_event()
    if runs.threads:
        log.warning("waiting for executions; another signal ends them", executions=len(runs.threads), seconds=seconds)
    deadline = time.monotonic() + seconds
    while runs.threads and time.monotonic() < deadline and not hurry.wait(POLL_SECONDS):
        pass


def _end_runs(service: Service, runs: RunHost, server: RunServer, members: Membership) -> None:
    """End the runs and their drivers, unless those go on: then the next launcher, or another one, resumes the runs."""
    server.end_processes()
    if service.compute.outlives_service:
        members.end()
        os._exit(0)  # the threads would meet closed connections
    runs.threads.stop(STOP_SECONDS)
    for handle in service.compute.list():
        service.compute.cancel(handle)
    members.end()


if __name__ == "__main__":
    main()
