"""Run launcher: a run's process is forked from one that has everything imported (orchestration.run_server).

Named in dagster.yaml. Each run's process has a pidfile in DAGSTER_HOME/runs, by which it is watched and ended.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster import DagsterRun
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, RunLauncher, WorkerStatus
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import ConfigurableClass, ConfigurableClassData

from orchestration.instance import run_pidfile, run_socket
from orchestration.pidfile import alive, living_pid

CONNECT_SECONDS = 15


class ForkingRunLauncher(RunLauncher[Any], ConfigurableClass):
    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        self._inst_data = inst_data
        super().__init__()

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> ForkingRunLauncher:
        return cls(inst_data, **config_value)

    def launch_run(self, context: LaunchRunContext) -> None:
        run = context.dagster_run
        if run.job_code_origin is None:
            raise ValueError(f"Run {run.run_id} does not say where its code is.")
        arguments = ExecuteRunArgs(run.job_code_origin, run.run_id, self._instance.get_ref())
        _send(self._home, {"run_id": run.run_id, "arguments": list(arguments.get_command_args()[-3:])})

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        pid = living_pid(run_pidfile(self._home, run_id))
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        if alive(run_pidfile(self._home, run.run_id)):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "The run's process is gone.")

    @property
    def _home(self) -> Path:
        return Path(self._instance.root_directory)


def _send(home: Path, request: Mapping[str, Any]) -> None:
    """Hands the request over; waits while the server is being started again. Raises OSError when it stays away."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(run_socket(home))
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                continue
            connection.sendall(json.dumps(request).encode() + b"\n")
            if connection.recv(2) != b"ok":
                raise OSError("The run server could not start the run's process.")
            return
