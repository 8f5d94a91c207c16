"""Compute on this machine: a driver is a subprocess in its own session, which outlives the Dagster run.

Where it begins with Spark, a spare one is taken if it fits (orchestration/compute/spares.py), otherwise it is a fork of
a warm process (orchestration/compute/forks.py). Else one is started.

DATA/drivers/<name> is its pidfile, so any process can check whether it runs, and stop it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.infra.pidfile import hold_pidfile, is_alive, list_alive, read_alive_pid
from core.infra.processes import signal_group
from core.infra.secrets import write_private
from core.infra.settings import Settings
from core.infra.storage import get_local_folder
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import log_key, spec_key
from driver.handover import TakeRequest
from driver.spec import ExecutionSpec
from orchestration.compute.forks import fork_driver
from orchestration.compute.log_copies import LogCopies
from orchestration.compute.processes import (
    RECORD_AND_RUN,
    build_environment,
    kill_trees,
    list_tree,
    list_users,
)
from orchestration.compute.protocol import DriverHandle, DriverStatus, PodType
from orchestration.compute.spares import take_spare

if TYPE_CHECKING:
    from dagster import PipesMessageReader

TERMINATION_SECONDS = 2.5
LOG_TAIL_BYTES = 64 * 1024


class LocalCompute:
    """Implements Compute with subprocesses."""

    def __init__(self, settings: Settings) -> None:
        self._data = settings.data.resolve()
        self._files = LocalStorage(get_local_folder(settings))
        self._logs = LogCopies(settings, self._files)
        self._pidfiles = self._data / "drivers"
        self._children: dict[DriverHandle, subprocess.Popen[bytes]] = {}

    def launch(
        self, spec: ExecutionSpec, secrets: Mapping[str, str], environment: Mapping[str, str] | None = None
    ) -> DriverHandle:
        handle = DriverHandle(spec.organization_id, spec.execution_id, spec.attempt)
        spec_file = self._spec_path(handle)
        write_private(spec_file, spec.to_json())
        self._pidfiles.mkdir(parents=True, exist_ok=True)
        scratch = self._scratch_folder(handle)
        pidfile = self._pidfiles / handle.name
        variables = {**(environment or {}), **secrets}
        with hold_pidfile(pidfile) as lock, self._log_path(handle).open("ab") as log:
            if spec.begins_with_spark:
                request = TakeRequest(spec=str(spec_file), environment=variables)
                if take_spare(self._data, spec.spark, request, scratch, log.fileno(), lock):
                    return handle
            scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            environment = {**build_environment(str(scratch)), **variables}
            request = TakeRequest(spec=str(spec_file), environment=environment)
            if not spec.begins_with_spark and fork_driver(self._data, request, log.fileno(), lock):
                return handle
            os.ftruncate(lock, 0)
            command = [sys.executable, "-P", "-m", "driver", str(spec_file)]
            self._children[handle] = subprocess.Popen(
                ["/bin/sh", "-c", RECORD_AND_RUN, str(pidfile), *command],
                cwd=self._data,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
            )
        return handle

    def observe(self, handle: DriverHandle) -> DriverStatus:
        self._logs.copy_changed(handle)
        child = self._children.get(handle)
        if child is not None:
            exit_code = child.poll()
            return DriverStatus(running=exit_code is None, exit_code=exit_code)
        return DriverStatus(running=is_alive(self._pidfiles / handle.name))

    def cancel(self, handle: DriverHandle) -> None:
        leader = read_alive_pid(self._pidfiles / handle.name)
        if leader is not None:
            tree = list_tree(leader)
            signal_group(leader, signal.SIGTERM)
            deadline = time.monotonic() + TERMINATION_SECONDS
            while self.observe(handle).running and time.monotonic() < deadline:
                time.sleep(0.05)
            signal_group(leader, signal.SIGKILL)
            kill_trees(tree)
        # without its folder, a JVM that is starting would never notice that its driver has ended
        kill_trees(list_users(str(self._scratch_folder(handle).resolve())))
        self._remove_scratch(handle)  # a killed driver does not clean up
        self._logs.finish(handle)

    def create_message_reader(self, handle: DriverHandle) -> PipesMessageReader:
        from orchestration.dagster_internals import DriverMessageReader

        path = self._spec_path(handle).with_name("messages.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        return DriverMessageReader(str(path))

    def read_logs(self, handle: DriverHandle, pod_type: PodType = "driver", tail: int = 100) -> Sequence[str]:
        """Return the log's last lines; executors run inside the driver and have no log of their own."""
        path = self._log_path(handle)
        if pod_type != "driver" or tail <= 0 or not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-tail:]

    def read_log_part(self, handle: DriverHandle, offset: int, size: int) -> bytes:
        try:
            with self._log_path(handle).open("rb") as file:
                file.seek(offset)
                return file.read(size)
        except FileNotFoundError:
            return b""

    def list(self) -> Sequence[DriverHandle]:
        return [DriverHandle.from_name(name) for name in list_alive(self._pidfiles)]

    def _spec_path(self, handle: DriverHandle) -> Path:
        return self._files.path(spec_key(handle.organization_id, handle.execution_id, handle.attempt))

    def _log_path(self, handle: DriverHandle) -> Path:
        return self._files.path(log_key(handle.organization_id, handle.execution_id, handle.attempt))

    def _remove_scratch(self, handle: DriverHandle) -> None:
        scratch = self._scratch_folder(handle)
        shutil.rmtree(scratch.resolve(), ignore_errors=True)  # resolved: a spare driver has brought its own
        if scratch.is_symlink():
            scratch.unlink()

    def _scratch_folder(self, handle: DriverHandle) -> Path:
        # a short name: paths of Unix sockets in this folder have at most 107 bytes
        return self._data / "scratch" / f"{handle.execution_id}.{handle.attempt}"
