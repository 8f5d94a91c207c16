"""Dagster's private API. No other module uses it, but dagster_run_internals what runs need.

Each use states why the public API is not enough, and its fallback. When a new Dagster moves a name,
tests/orchestration/test_dagster_internals.py fails with these sentences. Functions import the modules that
`import dagster` does not load.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import structlog
from dagster import (
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    Definitions,
    RunsFilter,
    ScheduleEvaluationContext,
    serialize_value,
)
from dagster._core.definitions.selector import InstigatorSelector
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, RunLauncher, WorkerStatus
from dagster._core.origin import (
    DEFAULT_DAGSTER_ENTRY_POINT,
    get_python_environment_entry_point,
)
from dagster._core.remote_origin import (
    GrpcServerCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.utils import FuturesAwareThreadPoolExecutor
from dagster._serdes import ConfigurableClass, ConfigurableClassData

from core.definitions.schedules.cron import parse_cron
from core.infra.commit_mark import CommitMark
from core.infra.heartbeats import BeatingEvent
from core.infra.idle import IdleWatch
from orchestration.collection import pause_collection

if TYPE_CHECKING:
    from dagster._grpc.__generated__.dagster_api_pb2 import ExternalRepositoryRequest

REPOSITORY = "__repository__"
ASSET_JOB = "__ASSET_JOB"
FORK_MODULES = (
    "dagster._core.definitions.repository_definition.repository_data_builder",
    "dagster._core.executor.in_process",
    "dagster._core.instance.factory",
    "dagster._core.scheduler.instigation",
    "dagster._core.secrets.env_file",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.storage.root",
    "dagster._core.storage.schedules.sqlite",
    "dagster._core.storage.sqlite_storage",
    "dagster._core.system_config.composite_descent",
    "dagster._core.workspace.autodiscovery",
    "dagster._daemon.cli",
    "dagster._grpc.client",
    "dagster._grpc.server",
    "upath.implementations.local",
)
UNFINISHED = [
    DagsterRunStatus.CANCELING,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.STARTING,
]
MAX_THREADS = 8
WATCH_SECONDS = 5
GRACE_SECONDS = 20.0  # for calls that run when a code server ends

log = structlog.get_logger()


def import_before_fork() -> None:
    """Import what Dagster loads when it needs it, so that forked processes need not import it.

    Public API: none. Fallback: leave it out, and each fork takes longer and more memory.
    """
    for name in FORK_MODULES:
        importlib.import_module(name)


def rest_idle_daemon(mark: CommitMark | None) -> None:
    """Let a daemon look for runs only while there are any, or somebody has written to Dagster's tables.

    `mark` is that of PostgreSQL, None beside SQLite. A daemon also asks less often than the webserver whether
    definitions have changed: it evaluates ticks that it has missed.
    Public API: intervals, which delay launches. Fallback: leave it out, and an idle daemon takes twice the CPU.
    """
    from dagster._daemon.daemon import MonitoringDaemon
    from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
    from dagster._grpc import server_watcher

    server_watcher.WATCH_INTERVAL = WATCH_SECONDS
    source = mark or Path(os.environ["DAGSTER_HOME"]) / "history" / "runs.db"
    for daemon in (QueuedRunCoordinatorDaemon, MonitoringDaemon):
        daemon.run_iteration = rest_without_runs(daemon.run_iteration, source)  # pyright: ignore[reportAttributeAccessIssue]


def follow_daemons(beat: Callable[[str], None]) -> None:
    """Call `beat` with `scheduler` and `daemon` each time that Dagster's scheduler and queue go around.

    Public API: heartbeats in its database, half a minute apart and written also for a scheduler that waits. Fallback:
    leave it out, and out of core.infra.heartbeats too.
    """
    from dagster._daemon.daemon import SchedulerDaemon
    from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

    for daemon, loop in ((SchedulerDaemon, "scheduler"), (QueuedRunCoordinatorDaemon, "daemon")):
        daemon._check_add_heartbeat = _beat_before(daemon._check_add_heartbeat, beat, loop)  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    SchedulerDaemon.core_loop = _beat_in_waits(SchedulerDaemon.core_loop, beat)  # pyright: ignore[reportAttributeAccessIssue]


def _beat_in_waits(core_loop: Callable[..., Any], beat: Callable[[str], None]) -> Callable[..., Any]:
    """Return the loop with an event that beats: the scheduler waits on it for the next minute."""

    def run(daemon: object, context: Any, shutdown_event: threading.Event) -> Any:
        return core_loop(daemon, context, BeatingEvent(shutdown_event, partial(beat, "scheduler")))

    return run


def _beat_before(method: Callable[..., None], beat: Callable[[str], None], loop: str) -> Callable[..., None]:
    def beat_and_call(*arguments: Any) -> None:
        beat(loop)
        method(*arguments)

    return beat_and_call


def follow_crons(location: str) -> None:
    """Let the schedules of a location fire, and pages list them, at the times of `Cron.iterate`.

    Dagster's own iterator fires `0 */2 * * *` at 3:00 in the night in which 2:00 is skipped. Public API: none.
    Fallback: leave it out; Dagster then shows such ticks as skipped, and the launcher fires the others late.
    """
    from dagster._core.remote_representation.external import RemoteSchedule

    iterate_as_dagster = RemoteSchedule.execution_time_iterator

    def iterate(self: RemoteSchedule, start_timestamp: float, ascending: bool = True) -> Iterator[datetime]:
        if self.handle.repository_handle.location_name != location or not ascending:
            return iterate_as_dagster(self, start_timestamp, ascending)
        timezone = self.execution_timezone or "UTC"
        after = datetime.fromtimestamp(start_timestamp, UTC) - timedelta(microseconds=1)
        cron = parse_cron(str(self.cron_schedule))
        return (tick.astimezone(ZoneInfo(timezone)) for tick in cron.iterate(after, timezone))

    RemoteSchedule.execution_time_iterator = iterate


def rest_without_runs(iterate: Callable[..., Iterator[Any]], source: Path | CommitMark) -> Callable[..., Iterator[Any]]:
    """Return an iteration of a daemon that does nothing while no run is unfinished and nobody has written to `source`.

    Public API: none. Fallback: leave it out, as `rest_idle_daemon`.
    """
    idle = IdleWatch(source)

    def iterate_unless_idle(daemon: object, context: Any, *arguments: Any, **options: Any) -> Iterator[Any]:
        if idle.is_resting():
            return
        yield from iterate(daemon, context, *arguments, **options)
        if not context.instance.get_run_ids(RunsFilter(statuses=UNFINISHED), limit=1):
            idle.rest()

    return iterate_unless_idle


def locate_repository(host: str, port: int, location: str) -> RemoteRepositoryOrigin:
    """Return the origin of the code server's repository, which runs and ticks refer to.

    Public API: origins have none. Fallback: runs without origin, which the UI cannot launch again.
    """
    return RemoteRepositoryOrigin(GrpcServerCodeLocationOrigin(host, port, location_name=location), REPOSITORY)


def is_tick(context: ScheduleEvaluationContext) -> bool:
    """Return whether the daemon evaluates a tick; False for the UI's preview of one.

    The key of a tick's log ends with the tick's id; a preview has no tick, and its key ends with a time. Public API:
    none; both evaluate the same function. Fallback: treat every evaluation as a preview, and the launcher fires ticks.
    """
    return bool(context.log_key) and context.log_key[-1].isdecimal()


def add_run_to_tick(
    instance: DagsterInstance, repository: RemoteRepositoryOrigin, schedule: str, tick_at: datetime, run_id: str
) -> bool:
    """Add the run to its tick, which then counts as a success; return False while the daemon still works on it.

    Public API: a schedule returns run requests, which Dagster launches later and without an execution. Fallback:
    ticks show no runs; these have the tags of their schedule all the same.
    """
    from dagster._core.scheduler.instigation import TickStatus

    location = repository.code_location_origin.location_name
    selector = InstigatorSelector(location_name=location, repository_name=repository.repository_name, name=schedule)
    origin = RemoteInstigatorOrigin(repository, schedule)
    tick = instance.get_tick(origin.get_id(), selector.get_id(), tick_at.timestamp())
    if tick is None or tick.status is TickStatus.STARTED:
        return False
    if run_id not in tick.run_ids:
        # a tick whose process was killed has an error, and was fired all the same
        run_ids = [*tick.run_ids, run_id]
        instance.update_tick(tick.with_status(TickStatus.SUCCESS, skip_reason=None, error=None, run_ids=run_ids))
    return True


def read_location_names(workspace: Path) -> set[str]:
    """Return the names of the code locations of a workspace.yaml; raise what Dagster raises for an invalid one.

    Public API: only `dagster` commands read it. Fallback: users see Dagster's message in the log of the start.
    """
    from dagster._core.workspace.load import location_origins_from_yaml_paths

    return {origin.location_name for origin in location_origins_from_yaml_paths([str(workspace)])}


@pause_collection()
def serialize_definitions(definitions: Definitions) -> str:
    """Return the definitions as the code server sends them, without the snapshots of jobs.

    Public API: `dagster api grpc` serializes them for each request. Fallback: that command, as for the next function.
    """
    from dagster._core.remote_representation.external_data import RepositorySnap

    return serialize_value(RepositorySnap.from_def(definitions.get_repository_def(), defer_snapshots=True))


class CodeServer:
    """Serves the definitions in `module` until `end`, with the serialized ones where it can.

    At 10,000 jobs, serializing takes many seconds. Public API: `dagster api grpc` loads the definitions anew, in
    seconds (docs/adr/0019). Fallback: that command, started again at changes.
    """

    def __init__(
        self, host: str, port: int, *, module: str, folder: Path, location: str, serialized: str, server_id: str
    ) -> None:
        from dagster._grpc.server import DagsterApiServer, DagsterGrpcServer

        class Servicer(DagsterApiServer):
            def _get_serialized_external_repository_data(self, request: ExternalRepositoryRequest) -> str:
                if request.defer_snapshots:
                    return serialized
                return super()._get_serialized_external_repository_data(request)

            def show_id(self, server_id: str) -> None:
                self._server_id = server_id

        self._ended = threading.Event()
        executor = FuturesAwareThreadPoolExecutor(max_workers=MAX_THREADS)
        logger = logging.getLogger("dagster.code_server")
        self._servicer = Servicer(
            server_termination_event=self._ended,
            logger=logger,
            server_threadpool_executor=executor,
            loadable_target_origin=LoadableTargetOrigin(
                executable_path=sys.executable,
                module_name=module,
                attribute="definitions",
                working_directory=str(folder),
            ),
            fixed_server_id=server_id,
            location_name=location,
        )
        self._server = DagsterGrpcServer(self._ended, self._servicer, logger, executor, host=host, port=port).server

    def serve(self, on_ready: Callable[[], None]) -> None:
        """Answer calls, of which the first may come after `on_ready`; return after `end` and the calls that run."""
        self._server.start()
        on_ready()
        self._ended.wait()
        self._server.stop(grace=GRACE_SECONDS).wait()
        self._servicer.cleanup()

    def show_id(self, server_id: str) -> None:
        """Show this id from now on: those who poll it load the definitions again."""
        self._servicer.show_id(server_id)

    def end(self) -> None:
        self._ended.set()


class ConfiguredRunLauncher(RunLauncher[Any], ConfigurableClass):
    """Base of a run launcher that dagster.yaml names and that has no configuration.

    Public API: dagster.yaml names launchers by class, but only integrations export theirs, not the base. Fallback:
    Dagster's own launcher, whose runs start two seconds later.
    """

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        self._inst_data = inst_data
        super().__init__()

    @abstractmethod
    def start(self, run: DagsterRun) -> None:
        """Start a process that executes the run."""

    @abstractmethod
    def has_process(self, run: DagsterRun) -> bool: ...

    @property
    def instance(self) -> DagsterInstance:
        return self._instance

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> ConfiguredRunLauncher:
        return cls(inst_data, **config_value)

    def launch_run(self, context: LaunchRunContext) -> None:
        self.start(context.dagster_run)

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        if self.has_process(run):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "The run's process is gone.")


def build_command(instance: DagsterInstance, run: DagsterRun) -> list[str]:
    """Return the command that executes a run of another code location, with the interpreter of that one.

    Dagster's own command needs `dagster` on PATH, which an interpreter that is called by its path does not put there.

    Public API: Dagster's launcher builds the same command inside. Fallback: runs of other code locations go to a
    launcher of Dagster.
    """
    from dagster._grpc.types import ExecuteRunArgs

    if run.job_code_origin is None:
        raise ValueError(f"Run {run.run_id} has no code origin.")
    repository = run.job_code_origin.repository_origin
    command = ExecuteRunArgs(run.job_code_origin, run.run_id, instance.get_ref()).get_command_args()
    if repository.entry_point != DEFAULT_DAGSTER_ENTRY_POINT:
        return list(command)
    return [*get_python_environment_entry_point(repository.executable_path), *command[1:]]
