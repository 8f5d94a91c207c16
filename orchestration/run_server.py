"""`python -m orchestration.run_server`: imports what a run needs once, then forks a process for each run.

A forked run reports its first event after 0.1 s instead of 2 s. The parent has no threads and no connections.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from types import FrameType

import dagster

from orchestration.compute.local import LocalCompute
from orchestration.instance import run_pidfile, run_socket
from orchestration.pidfile import living, living_pid, locked
from pipelines.registry.catalog import load_plugins

STOP_SECONDS = 12
PRELOADED = (
    "orchestration.definitions",
    "dagster._cli",
    "dagster._core.executor.in_process",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.workspace.autodiscovery",
)


def main() -> None:
    _preload()
    warnings.filterwarnings("ignore", message=".* is currently in preview")  # Dagster's, about its own Pipes
    home = Path(os.environ["DAGSTER_HOME"])
    (home / "runs").mkdir(exist_ok=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    signal.signal(signal.SIGTERM, _exit)
    gc.freeze()
    try:
        _serve(home)
    finally:
        _end_runs(home)


def _preload() -> None:
    """Once for all runs. Dagster imports much only where it is used: hence the instance that is opened and closed."""
    for name in PRELOADED:
        importlib.import_module(name)
    with dagster.DagsterInstance.get():
        load_plugins()


def _exit(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _serve(home: Path) -> None:
    path = run_socket(home)
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(128)
        print("ready to run", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                request = json.loads(connection.makefile().readline() or "null")
                if request is not None and os.fork() == 0:
                    server.close()
                    _run(home, request["run_id"], request["arguments"], connection)


def _run(home: Path, run_id: str, arguments: list[str], connection: socket.socket) -> None:
    """In the fork: what `dagster api execute_run` does, held by a pidfile. Never returns."""
    from dagster._cli import cli

    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    exit_code = 1
    try:
        with locked(run_pidfile(home, run_id)) as descriptor:
            os.write(descriptor, str(os.getpid()).encode())
            connection.sendall(b"ok")
            connection.close()
            cli(arguments, standalone_mode=False)
            exit_code = 0
    finally:
        run_pidfile(home, run_id).unlink(missing_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def _end_runs(home: Path) -> None:
    """Ends the runs, which stop their drivers, and then the drivers whose runs are gone."""
    runs = [run_pidfile(home, run_id) for run_id in living(home / "runs")]
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 0)):
        for pid in filter(None, map(living_pid, runs)):
            with suppress(ProcessLookupError):  # it ended meanwhile
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while any(map(living_pid, runs)) and time.monotonic() < deadline:
            time.sleep(0.05)
    compute = LocalCompute(home.parent)
    for name in compute.names():
        compute.cancel(name)


if __name__ == "__main__":
    main()
