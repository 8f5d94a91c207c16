"""Compute on this machine: a driver is a subprocess in its own session, which outlives the Dagster run.

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
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from core.infra.pidfile import hold_pidfile, is_alive, list_alive, read_alive_pid
from core.infra.secrets import write_private
from core.infra.settings import Settings
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import log_key, spec_key
from driver.spec import ExecutionSpec
from orchestration.compute.protocol import DriverHandle, DriverStatus, PodType

if TYPE_CHECKING:
    from dagster import PipesMessageReader

TERMINATION_SECONDS = 2.5
LOG_TAIL_BYTES = 64 * 1024
INHERITED = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "JAVA_HOME",
    "SPARK_HOME",
    "SPARK_LOCAL_IP",
    "PYTHONPATH",
)
FIXED = {
    "PYTHONSAFEPATH": "1",  # `-P` for the Python workers that Spark starts
    "AWS_EC2_METADATA_DISABLED": "true",
}
# The shell writes the pid before it becomes Python, so a running driver always has its pid recorded.
RECORD_AND_RUN = 'echo $$ > "$0" && exec "$@"'


class LocalCompute:
    """Implements Compute with subprocesses."""

    def __init__(self, settings: Settings) -> None:
        self._data = settings.data.resolve()
        self._storage = LocalStorage(settings.data / "storage")
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
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        folders = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        pidfile = self._pidfiles / handle.name
        command = [sys.executable, "-P", "-m", "driver", str(spec_file)]
        with hold_pidfile(pidfile) as lock, self._log_path(handle).open("ab") as log:
            self._children[handle] = subprocess.Popen(
                ["/bin/sh", "-c", RECORD_AND_RUN, str(pidfile), *command],
                cwd=self._data,
                env={**inherited, **folders, **FIXED, **(environment or {}), **secrets},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
            )
        return handle

    def observe(self, handle: DriverHandle) -> DriverStatus:
        child = self._children.get(handle)
        if child is not None:
            exit_code = child.poll()
            return DriverStatus(running=exit_code is None, exit_code=exit_code)
        return DriverStatus(running=is_alive(self._pidfiles / handle.name))

    def cancel(self, handle: DriverHandle) -> None:
        leader = read_alive_pid(self._pidfiles / handle.name)
        if leader is not None:
            tree = _list_tree(leader)
            _signal_group(leader, signal.SIGTERM)
            deadline = time.monotonic() + TERMINATION_SECONDS
            while self.observe(handle).running and time.monotonic() < deadline:
                time.sleep(0.05)
            _signal_group(leader, signal.SIGKILL)
            _kill_trees(tree)
        shutil.rmtree(self._scratch_folder(handle), ignore_errors=True)  # a killed driver does not clean up

    def create_message_reader(self, handle: DriverHandle) -> PipesMessageReader:
        from dagster import PipesFileMessageReader

        path = self._spec_path(handle).with_name("messages.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        return PipesFileMessageReader(str(path))

    def read_logs(self, handle: DriverHandle, pod_type: PodType = "driver", tail: int = 100) -> Sequence[str]:
        """Return the log's last lines; executors run inside the driver and have no log of their own."""
        path = self._log_path(handle)
        if pod_type != "driver" or tail <= 0 or not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-tail:]

    def list(self) -> Sequence[DriverHandle]:
        return [DriverHandle.from_name(name) for name in list_alive(self._pidfiles)]

    def _spec_path(self, handle: DriverHandle) -> Path:
        return self._storage.path(spec_key(handle.organization_id, handle.execution_id, handle.attempt))

    def _log_path(self, handle: DriverHandle) -> Path:
        return self._storage.path(log_key(handle.organization_id, handle.execution_id, handle.attempt))

    def _scratch_folder(self, handle: DriverHandle) -> Path:
        # a short name: paths of Unix sockets in this folder have at most 107 bytes
        return self._data / "scratch" / f"{handle.execution_id}.{handle.attempt}"


def _list_tree(pid: int) -> Sequence[psutil.Process]:
    """Return the process and its descendants: workers, browsers and sandboxes have process groups of their own."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _kill_trees(processes: Sequence[psutil.Process]) -> None:
    """Kill those of the processes that are left, with the children that they have started since."""
    for process in processes:
        for each in _list_tree(process.pid) if process.is_running() else ():
            with suppress(psutil.NoSuchProcess):
                each.kill()


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.killpg(leader, number)
