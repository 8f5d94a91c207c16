"""Compute on this machine: a driver is a subprocess in its own session, which outlives the Dagster run.

An execution waits for its turn (driver_queue.py). Where it begins with Spark, it takes a driver that has Spark;
otherwise its driver is a fork of a warm process (host_keeper.py). Else one is started.

DATA/drivers/<name> is its pidfile, so any process can check whether it runs, and stop it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from core.infra.database import Database
from core.infra.pidfile import hold_pidfile, is_alive, list_alive, read_alive_pid
from core.infra.processes import signal_group
from core.infra.secrets import write_private
from core.infra.settings import Settings
from core.infra.storage import get_local_folder
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import log_key, spec_key
from driver.host_folder import OWN_SPARK
from driver.transport import HostRequest
from orchestration.compute.capacity import count_drivers, count_working
from orchestration.compute.driver_queue import DriverQueue
from orchestration.compute.host import Host, is_host_alive
from orchestration.compute.host_keeper import HostKeeper
from orchestration.compute.log_copies import LogCopies, read_last_lines, read_part
from orchestration.compute.processes import (
    RECORD_AND_RUN,
    build_environment,
    kill_trees,
    list_tree,
    list_users,
)
from orchestration.compute.protocol import DriverHandle, DriverSource, DriverStatus, Launch, PodType, Wait
from orchestration.driver_messages import DriverMessages
from pipelines.contract.request import RunRequest
from pipelines.language.engines import EngineName

TERMINATION_SECONDS = 2.5

logger = structlog.get_logger()


class LocalCompute:
    """Implements Compute with subprocesses."""

    outlives_service = False

    def __init__(self, settings: Settings, database: Database | None = None) -> None:
        self._data = settings.data.resolve()
        self._files = LocalStorage(get_local_folder(settings.storage))
        self._logs = LogCopies(settings, self._files)
        self._pidfiles = self._data / "drivers"
        self.queues = {
            each: DriverQueue(count_drivers(settings, each), partial(count_working, self._data, each))
            for each in (EngineName.SPARK, EngineName.LOCAL)
        }
        self.hosts = HostKeeper(settings, self.queues[EngineName.SPARK], database)
        self._children: dict[DriverHandle, subprocess.Popen[bytes]] = {}

    def count_places(self) -> int | None:
        """Return how many drivers work at once; None where that is not limited."""
        most = [queue.most for queue in self.queues.values()]
        return None if None in most else sum(filter(None, most))

    def launch(
        self,
        spec: RunRequest,
        secrets: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        wait: Wait | None = None,
    ) -> Launch | None:
        handle = DriverHandle(spec.organization_id, spec.execution_id, spec.attempt)
        write_private(self._spec_path(handle), spec.to_json())
        self._pidfiles.mkdir(parents=True, exist_ok=True)
        self._scratch_folder(handle).parent.mkdir(parents=True, exist_ok=True)
        variables = {**(environment or {}), **secrets}
        queue = self.queues[EngineName.SPARK if spec.begins_with_spark else EngineName.LOCAL]
        if not queue.is_limited:
            return self._take(handle, spec, variables, 0) or self._start(handle, spec, variables, OWN_SPARK)
        began = time.monotonic()
        found = queue.serve(spec, partial(self._find_driver, handle, spec, variables), wait or _sleep)
        return replace(found, waited_seconds=time.monotonic() - began) if found else None

    def _find_driver(
        self, handle: DriverHandle, spec: RunRequest, variables: Mapping[str, str], waited: float
    ) -> Launch | None:
        """Return a driver whose turn it is; None while a better one than a new process is about to be ready."""
        if not spec.begins_with_spark:
            return self._start(handle, spec, variables) if spec.has_own_process else self._fork(handle, spec, variables)
        found = self._take(handle, spec, variables, waited)
        if found is None and self.hosts.may_start(spec, waited):
            return self._start(handle, spec, variables, OWN_SPARK)
        return found

    def _take(
        self, handle: DriverHandle, spec: RunRequest, variables: Mapping[str, str], waited: float
    ) -> Launch | None:
        """Give the execution to a driver that has Spark, if one may be taken."""
        request = HostRequest(spec=spec, environment=variables)
        for host, source in self.hosts.find(spec, waited):
            if host.claim(spec) and self._give(host, handle, request):
                return Launch(handle, source, host.name)
        return None

    def _give(self, host: Host, handle: DriverHandle, request: HostRequest) -> bool:
        """Give the execution to a claimed host; return False when that does not answer, and was killed."""
        scratch = self._scratch_folder(handle)
        with self._open_files(handle) as (lock, log):
            scratch.symlink_to(host.name)
            os.pwrite(lock, f"{host.process.pid}\n".encode(), 0)  # first: from now on the cancel ends the driver
            if host.send_execution(request, log, lock):
                return True
            logger.warning("a driver does not answer", host=host.name)
            os.ftruncate(lock, 0)
            scratch.unlink()
            host.kill()
            return False

    def _fork(self, handle: DriverHandle, spec: RunRequest, variables: Mapping[str, str]) -> Launch:
        scratch = self._scratch_folder(handle)
        scratch.mkdir(mode=0o700, exist_ok=True)
        environment = {**build_environment(str(scratch)), **variables}
        request = HostRequest(spec=spec, environment=environment)
        with self._open_files(handle) as (lock, log):
            if self.hosts.forks is not None and self.hosts.forks.fork(request, log, lock):
                return Launch(handle, DriverSource.FORK, handle.name)
        return self._start(handle, spec, variables)

    def _start(
        self, handle: DriverHandle, spec: RunRequest, variables: Mapping[str, str], mark: str | None = None
    ) -> Launch:
        """Start a process for this execution; a `mark` in its scratch folder means that it will start Spark."""
        scratch = self._scratch_folder(handle)
        scratch.mkdir(mode=0o700, exist_ok=True)
        if mark:
            (scratch / mark).touch()
        command = [sys.executable, "-P", "-m", "driver", str(self._spec_path(handle))]
        with self._open_files(handle) as (lock, log):
            os.ftruncate(lock, 0)
            self._children[handle] = subprocess.Popen(
                ["/bin/sh", "-c", RECORD_AND_RUN, str(self._pidfiles / handle.name), *command],
                cwd=self._data,
                env={**build_environment(str(scratch), spec.engine_folders), **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
            )
        return Launch(handle, DriverSource.NEW, handle.name)

    @contextmanager
    def _open_files(self, handle: DriverHandle) -> Generator[tuple[int, int]]:
        """Yield the descriptors of the locked pidfile and of the log, both for the driver."""
        with hold_pidfile(self._pidfiles / handle.name) as lock, self._log_path(handle).open("ab") as log:
            yield lock, log.fileno()

    def observe(self, handle: DriverHandle) -> DriverStatus:
        self._logs.copy_changed(handle)
        child = self._children.get(handle)
        if child is not None:
            exit_code = child.poll()
            return DriverStatus(running=exit_code is None, exit_code=exit_code)
        return DriverStatus(running=is_alive(self._pidfiles / handle.name))

    def follow(self, handle: DriverHandle) -> None:
        """Do nothing: the driver writes its log to a file itself."""

    def cancel(self, handle: DriverHandle) -> None:
        pidfile, scratch = self._pidfiles / handle.name, self._scratch_folder(handle)
        if scratch.is_symlink() and is_alive(pidfile):
            self.hosts.retire(scratch.readlink().name)
        leader = read_alive_pid(pidfile)  # after that: a host that has released it gets no other execution
        if leader is not None:
            tree = list_tree(leader)
            signal_group(leader, signal.SIGTERM)
            deadline = time.monotonic() + TERMINATION_SECONDS
            while self.observe(handle).running and time.monotonic() < deadline:
                time.sleep(0.05)
            signal_group(leader, signal.SIGKILL)
            kill_trees(tree)
        if not scratch.is_symlink() or self._has_ended(scratch.resolve(), was_killed=leader is not None):
            # without its folder, a JVM that is starting would never notice that its driver has ended
            kill_trees(list_users(str(scratch.resolve())))
            shutil.rmtree(scratch.resolve(), ignore_errors=True)  # a killed driver does not clean up
        if scratch.is_symlink():
            scratch.unlink()
        self._logs.finish(handle)
        self._children.pop(handle, None)

    def _has_ended(self, folder: Path, was_killed: bool) -> bool:
        """Return whether a host has ended: a killed one holds its lock for some moments."""
        deadline = time.monotonic() + (TERMINATION_SECONDS if was_killed else 0)
        while is_host_alive(folder):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True

    def open_messages(self, handle: DriverHandle) -> DriverMessages:
        path = self._spec_path(handle).with_name("messages.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        return DriverMessages(path)

    def read_logs(self, handle: DriverHandle, pod_type: PodType = "driver", tail: int = 100) -> Sequence[str]:
        """Return the log's last lines; executors run inside the driver and have no log of their own."""
        return read_last_lines(self._log_path(handle), tail) if pod_type == "driver" else []

    def read_log_part(self, handle: DriverHandle, offset: int, size: int) -> bytes:
        return read_part(self._log_path(handle), offset, size)

    def list(self) -> Sequence[DriverHandle]:
        return [DriverHandle.from_name(name) for name in list_alive(self._pidfiles)]

    def _spec_path(self, handle: DriverHandle) -> Path:
        return self._files.path(spec_key(handle.organization_id, handle.execution_id, handle.attempt))

    def _log_path(self, handle: DriverHandle) -> Path:
        return self._files.path(log_key(handle.organization_id, handle.execution_id, handle.attempt))

    def _scratch_folder(self, handle: DriverHandle) -> Path:
        return self._data / "scratch" / f"{handle.execution_id}.{handle.attempt}"


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True
