"""Dagster run launcher, selected in dagster.yaml: the run server forks a process for every run.

A run's process has a pidfile in DAGSTER_HOME/runs, by which it is observed and terminated.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster import DagsterRun
from dagster._core.launcher import CheckRunHealthResult, LaunchRunContext, RunLauncher, WorkerStatus
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import ConfigurableClass, ConfigurableClassData

from core.infra.pidfile import is_alive, read_alive_pid
from core.infra.run_socket import get_run_pidfile, send_request
from orchestration.instance import LOCATION


class ForkingRunLauncher(RunLauncher[Any], ConfigurableClass):
    """Launches runs through orchestration.run_server, which has everything imported already."""

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
            raise ValueError(f"Run {run.run_id} has no code origin.")
        request: dict[str, Any] = {"run_id": run.run_id}
        if run.remote_job_origin is None or run.remote_job_origin.location_name != LOCATION:
            arguments = ExecuteRunArgs(run.job_code_origin, run.run_id, self._instance.get_ref())
            request["command"] = list(arguments.get_command_args())
        send_request(self._home, request)

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        pid = read_alive_pid(get_run_pidfile(self._home, run_id))
        if pid is None:
            return False
        os.kill(pid, signal.SIGTERM)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        if is_alive(get_run_pidfile(self._home, run.run_id)):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "The run's process is gone.")

    @property
    def _home(self) -> Path:
        return Path(self._instance.root_directory)
