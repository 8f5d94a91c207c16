"""Dagster run launcher, selected in dagster.yaml: the process `launcher` executes every run.

A run holds a pidfile in DAGSTER_HOME/runs, by which it is observed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dagster import DagsterRun

from core.infra.instances import get_instance_id, is_elsewhere
from core.infra.pidfile import is_alive
from core.infra.run_socket import get_run_pidfile, is_launcher_up, send_request
from orchestration.dagster_internals import ConfiguredRunLauncher, build_command
from orchestration.instance import LOCATION
from orchestration.run_tags import INSTANCE


class ServiceRunLauncher(ConfiguredRunLauncher):
    """Launches runs through orchestration.run_server, which has everything imported already."""

    def start(self, run: DagsterRun) -> None:
        self.instance.add_run_tags(run.run_id, {INSTANCE: get_instance_id(self._data)})
        request: dict[str, Any] = {"run_id": run.run_id}
        if run.remote_job_origin is None or run.remote_job_origin.location_name != LOCATION:
            request["command"] = build_command(self.instance, run)
        send_request(self._home, request)

    def has_process(self, run: DagsterRun) -> bool:
        """Return whether the run goes on: here, also while the launcher restarts, which resumes it, or elsewhere."""
        is_here = is_alive(get_run_pidfile(self._home, run.run_id)) or not is_launcher_up(self._home)
        return is_here or is_elsewhere(self._data, run.tags.get(INSTANCE))

    def terminate(self, run_id: str) -> bool:
        run = self.instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self.instance.report_run_canceling(run)
        if not self.has_process(run):
            return False
        if is_elsewhere(self._data, run.tags.get(INSTANCE)):  # its launcher looks for such runs
            return True
        send_request(self._home, {"run_id": run_id, "interrupt": True})
        return True

    @property
    def _home(self) -> Path:
        return Path(self.instance.root_directory)

    @property
    def _data(self) -> Path:
        return self._home.parent
