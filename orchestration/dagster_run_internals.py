"""Dagster's private API that the execution of runs uses. No other module but dagster_internals uses any.

Each use states why the public API is not enough, and its fallback.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from dagster import (
    AssetKey,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    JobDefinition,
)
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import create_execution_plan, execute_run_iterator
from dagster._core.log_manager import DagsterLogManager
from dagster._core.origin import (
    JobPythonOrigin,
    RepositoryPythonOrigin,
)
from dagster._core.remote_origin import (
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.compute_log_manager import CapturedLogContext, ComputeIOType
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME
from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.storage.tags import ASSET_RESUME_RETRY_TAG, RESUME_RETRY_TAG
from dagster._core.utils import is_valid_run_id
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.event import listen

if TYPE_CHECKING:
    pass

NO_CONSOLE = {"console": {"config": {"log_level": "CRITICAL"}}}  # the run's page shows the log
EMPTY = "empty"
STATEMENT_MILLISECONDS, POOL_RECYCLE_SECONDS, MAX_CONNECTIONS = 15_000, 3600, 8


def plan_job(job: JobDefinition) -> None:
    """Plan a job without a run, which imports the modules that planning and its types need.

    Public API: only the execution of a job plans it. Fallback: leave it out, and each run takes longer.
    """
    create_execution_plan(job)


def create_run(
    instance: DagsterInstance,
    job: JobDefinition,
    run_id: str,
    *,
    config: Mapping[str, Any],
    tags: Mapping[str, str],
    assets: Set[AssetKey],
    repository: RemoteRepositoryOrigin,
    module: str,
) -> DagsterRun:
    """Create a run of assets with a chosen id, without the webserver and the code server.

    `module` has the attribute `definitions`. Public API: `execute_in_process` stores no origin, so the UI could not
    launch the run again. Fallback: GraphQL's `launchRun`, which takes two seconds and chooses the id itself.
    """
    pointer = ModuleCodePointer(module, "definitions", os.getcwd())
    return instance.create_run_for_job(
        job,
        run_id=run_id,
        run_config=config,
        tags=tags,
        asset_selection=assets,
        remote_job_origin=RemoteJobOrigin(repository, job.name),
        job_code_origin=JobPythonOrigin(job.name, RepositoryPythonOrigin(sys.executable, pointer)),
    )


def execute_stored_run(instance: DagsterInstance, job: JobDefinition, run: DagsterRun) -> None:
    """Execute a stored run in this thread; one that has begun is resumed, and all of its steps are shown again.

    Public API: `execute_in_process` and `execute_job` create another run. Fallback: `dagster api execute_run`, whose
    process takes two seconds to start.
    """
    config = {**run.run_config, "loggers": NO_CONSOLE}
    quiet = run._replace(run_config=config)  # pyright: ignore[reportPrivateUsage]
    try:
        resumes = run.status is DagsterRunStatus.STARTED
        for _event in execute_run_iterator(InMemoryJob(job), quiet, instance, resume_from_failure=resumes):
            pass
    finally:
        if isinstance(instance.compute_log_manager, DriverOutputManager):
            instance.compute_log_manager.forget(run.run_id)


def is_resumed(run: DagsterRun) -> bool:
    """Return whether the UI launched the run from the failed steps or assets of another one.

    Public API: the tags' names have none. Fallback: their texts, as the page of such a run shows them.
    """
    return any(run.tags.get(tag) == "true" for tag in (RESUME_RETRY_TAG, ASSET_RESUME_RETRY_TAG))


class RunDatabases:
    """Keeps the connections of an instance to its databases open, which a process with many runs writes to.

    With SQLite, each run has a database of its own, which `make` copies from an empty one. Public API: Dagster opens a
    connection for each event, and stamps each new database by all its migrations. Fallback: leave it out, and a run
    costs the service five times as much.
    """

    def __init__(self, instance: DagsterInstance) -> None:
        instance.optimize_for_webserver(STATEMENT_MILLISECONDS, POOL_RECYCLE_SECONDS, MAX_CONNECTIONS)
        events, runs = instance.event_log_storage, instance.run_storage
        self._events = events if isinstance(events, SqliteEventLogStorage) else None
        self._engines: dict[str, Engine] = {}
        self._empty = b""
        if self._events is None or not isinstance(runs, SqliteRunStorage):
            return
        with TemporaryDirectory() as folder:
            template = SqliteEventLogStorage(folder)
            with template.run_connection(EMPTY):
                pass
            self._empty = Path(template.path_for_shard(EMPTY)).read_bytes()
        with self._events.index_connection():
            pass  # creates it
        self._keep(self._events, INDEX_SHARD_NAME)
        self._open, self._lock = self._events._connect, self._events._db_lock  # pyright: ignore[reportPrivateUsage]
        self._events._connect = self._connect  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        engine = _create_engine(runs._conn_string)  # pyright: ignore[reportPrivateUsage]
        runs.connect = engine.begin  # pyright: ignore[reportAttributeAccessIssue]

    def make(self, run_id: str) -> None:
        """Make the database of a new run unless it is there, and keep it open."""
        if self._events is not None:
            with suppress(FileExistsError), open(self._events.path_for_shard(run_id), "xb") as file:
                file.write(self._empty)
            if run_id not in self._engines:
                self._keep(self._events, run_id)

    def close(self, run_id: str) -> None:
        if run_id in self._engines:
            self._engines.pop(run_id).dispose()

    def _keep(self, events: SqliteEventLogStorage, shard: str) -> None:
        self._engines[shard] = _create_engine(events.conn_string_for_shard(shard))

    @contextmanager
    def _connect(self, shard: str) -> Generator[Connection]:
        engine = self._engines.get(shard)
        if engine is None or self._events is None:
            with self._open(shard) as connection:
                yield connection
        elif shard == INDEX_SHARD_NAME:
            with self._lock, engine.begin() as connection:
                yield connection
        else:
            with engine.begin() as connection:
                yield connection
            os.utime(self._events.path_for_shard(shard))  # webservers look at the file, and the log beside it has grown


def _create_engine(url: str) -> Engine:
    """Create an engine that waits for other writers, and for the disk only now and then."""
    engine = create_engine(url, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})
    listen(engine, "connect", _configure)
    return engine


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")


def separate_run_logs(instance: DagsterInstance) -> None:
    """Keep the logs of runs in threads apart.

    Dagster configures Python's logging at the start of each run, which closes the handlers of the others and may wait
    for them for ever, and gives what it logs itself to all of them. Public API: dagster.yaml can only add to this.
    Fallback: a process for each run.
    """
    instance.get_yaml_python_handlers = list[logging.Handler]  # pyright: ignore[reportAttributeAccessIssue]
    DagsterLogManager.begin_python_log_capture = lambda _manager: None  # pyright: ignore[reportAttributeAccessIssue]


def show_driver_output(instance: DagsterInstance) -> None:
    """Let the output of runs be what `write_run_output` writes, for as long as the instance is open.

    Public API: dagster.yaml names a manager for all runs, as for DriverOutputManager. Fallback: as there.
    """
    if isinstance(instance.compute_log_manager, LocalComputeLogManager):
        output = DriverOutputManager(instance.compute_log_manager)
        output.register_instance(instance)
        instance._compute_log_manager = output  # pyright: ignore[reportPrivateUsage]


class DriverOutputManager(LocalComputeLogManager):
    """Shows the text of `write_run_output` as the output of the run, instead of the output of this process.

    The files are those of Dagster's own manager, by which the webserver reads them. Public API: dagster.yaml names a
    manager for all runs, also for those of other code locations, and Dagster's own starts four processes for a run.
    Fallback: print the lines, which the service's log then repeats.
    """

    def __init__(self, base: LocalComputeLogManager) -> None:
        super().__init__(base._base_dir)  # pyright: ignore[reportPrivateUsage]
        self._keys: dict[str, Sequence[str]] = {}  # by run: a key begins with its id

    @contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Generator[CapturedLogContext]:
        run_id = log_key[0]
        self._keys[run_id] = log_key
        self.write(run_id, "stdout", ())
        self.write(run_id, "stderr", ())
        yield CapturedLogContext(log_key)
        Path(self.complete_artifact_path(log_key)).touch()

    def forget(self, run_id: str) -> None:
        self._keys.pop(run_id, None)

    def write(self, run_id: str, stream: Literal["stdout", "stderr"], lines: Iterable[str]) -> None:
        if run_id in self._keys:
            with self.open_log_stream(self._keys[run_id], ComputeIOType(stream)) as file:
                if file is not None:
                    file.writelines(f"{line}\n" for line in lines)


def write_run_output(
    instance: DagsterInstance, run_id: str, stream: Literal["stdout", "stderr"], lines: Iterable[str]
) -> None:
    """Append lines to the output of a run that this process executes.

    Public API: none; Dagster captures a process's own output. Fallback: leave it out; the execution's log has it.
    """
    manager = instance.compute_log_manager
    if isinstance(manager, DriverOutputManager):
        manager.write(run_id, stream, lines)


def list_run_files(instance: DagsterInstance, run_id: str) -> Sequence[Path]:
    """Return the files of a run: its output, and with SQLite its database.

    Public API: `delete_run` leaves these files. Fallback: leave them out, and each run keeps 45 KB for ever.
    """
    events, output = instance.event_log_storage, instance.compute_log_manager
    found: list[Path] = []
    if isinstance(events, SqliteEventLogStorage):
        database = Path(events.path_for_shard(run_id))
        found += [each for end in ("", "-wal", "-shm") if (each := database.with_name(database.name + end)).exists()]
    if isinstance(output, LocalComputeLogManager):
        folder = Path(output._base_dir, run_id)  # pyright: ignore[reportPrivateUsage]
        found += [each for each in folder.rglob("*") if each.is_file()]
    return found


def list_output_folders(instance: DagsterInstance) -> Sequence[Path]:
    """Return the folders of this machine with the output of runs, one for each, beside which others may lie.

    Public API: `delete_logs` needs the id of a run. Fallback: leave it out, and instances that do not lead keep them.
    """
    output = instance.compute_log_manager
    if not isinstance(output, LocalComputeLogManager):
        return ()
    base = Path(output._base_dir)  # pyright: ignore[reportPrivateUsage]
    return [each for each in base.iterdir() if is_valid_run_id(each.name)] if base.is_dir() else ()
