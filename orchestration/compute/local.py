"""Drivers as subprocesses of this machine.

A driver leads its own session and outlives the Dagster run that started it; DATA/drivers/<name> is its pidfile, so that
any process can tell whether it runs, and stop it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from orchestration.compute import Status
from orchestration.pidfile import alive, living, living_pid, locked

TERM_SECONDS = 10
PASSED_ON = (
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
SAFE_PATH = {"PYTHONSAFEPATH": "1"}  # `-P` for the Python workers that Spark starts
# The pid is written by the driver itself before it becomes Python: no moment is left in which it runs unrecorded.
RECORD_AND_RUN = 'echo $$ > "$0" && exec "$@"'


class LocalCompute:
    def __init__(self, data: Path) -> None:
        self._data = data.resolve()
        self._pidfiles = self._data / "drivers"
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def launch(self, name: str, spec_path: Path, environment: Mapping[str, str], log_path: Path) -> None:
        self._pidfiles.mkdir(parents=True, exist_ok=True)
        scratch = self._scratch(name)
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        inherited = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
        inside = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        command = [sys.executable, "-P", "-m", "driver", str(spec_path.resolve())]
        with locked(self._pidfiles / name) as lock, log_path.open("ab") as log:
            self._children[name] = subprocess.Popen(
                ["/bin/sh", "-c", RECORD_AND_RUN, str(self._pidfiles / name), *command],
                cwd=self._data,
                env=inherited | inside | SAFE_PATH | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lock,),
            )

    def observe(self, name: str) -> Status:
        child = self._children.get(name)
        if child is not None:
            exit_code = child.poll()
            return Status(running=exit_code is None, exit_code=exit_code)
        return Status(running=alive(self._pidfiles / name))

    def cancel(self, name: str) -> None:
        group = living_pid(self._pidfiles / name)
        if group is not None:
            self._end(name, group)
        shutil.rmtree(self._scratch(name), ignore_errors=True)  # what a killed driver could not clear away

    def _end(self, name: str, group: int) -> None:
        _signal(group, signal.SIGTERM)
        deadline = time.monotonic() + TERM_SECONDS
        while self.observe(name).running and time.monotonic() < deadline:
            time.sleep(0.05)
        _signal(group, signal.SIGKILL)  # also what the driver left of its JVM

    def _scratch(self, name: str) -> Path:
        return self._data / "scratch" / name

    def names(self) -> tuple[str, ...]:
        return living(self._pidfiles)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it ended meanwhile
        os.killpg(group, number)
