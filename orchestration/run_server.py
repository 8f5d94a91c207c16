"""`python -m orchestration.run_server`: import Dagster and the engine once, then fork one process per run.

A forked run records its first event after 0.1 s instead of 2 s.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from traceback import format_exc
from types import FrameType
from typing import Any, NoReturn

import dagster

from core.infra.forks import fork
from core.infra.pidfile import hold_pidfile, list_alive, read_alive_pid
from core.infra.run_socket import get_run_pidfile, get_run_socket
from core.infra.settings import Settings
from orchestration.acceptance import Attempt
from orchestration.compute import create_compute
from orchestration.dagster_internals import import_before_fork
from orchestration.runs import execute_attempt, execute_run, preload, report_failure, show_restored
from pipelines.registry import load_plugins

STOP_SECONDS = 12


def main() -> None:
    _preload()
    warnings.filterwarnings("ignore", message=".* is currently in preview")  # about Dagster's own Pipes
    home = Path(os.environ["DAGSTER_HOME"])
    (home / "runs").mkdir(exist_ok=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forks
    signal.signal(signal.SIGTERM, _raise_exit)
    gc.freeze()
    try:
        _serve(home)
    finally:
        _end_runs(home)


def _preload() -> None:
    """Import the modules of a run; opening an instance imports the parts that Dagster loads lazily."""
    import_before_fork()
    with dagster.DagsterInstance.get():
        load_plugins()
    preload()


def _raise_exit(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def _serve(home: Path) -> None:
    path = get_run_socket(home)
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(128)
        print(json.dumps({"level": "info", "event": "ready to run"}), flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                request = json.loads(connection.makefile().readline() or "null")
                if request is not None:
                    fork(f"spindle run {request['run_id']}", partial(_run, home, request, connection, server))


def _run(home: Path, request: dict[str, Any], connection: socket.socket, server: socket.socket) -> None:
    """In the fork: execute the run. The pidfile is locked until then."""
    server.close()
    os.setsid()
    run_id = request["run_id"]
    try:
        with hold_pidfile(get_run_pidfile(home, run_id)) as descriptor:
            os.write(descriptor, str(os.getpid()).encode())
            connection.sendall(b"ok")
            connection.close()
            if "command" in request:
                _replace_process(home, run_id, request["command"], descriptor)
            _execute(run_id, request)
    except Exception:
        print(json.dumps({"level": "error", "event": "a run failed", "run_id": run_id, "error": format_exc()}))
        sys.exit(1)
    finally:
        get_run_pidfile(home, run_id).unlink(missing_ok=True)


def _execute(run_id: str, request: dict[str, Any]) -> None:
    """Execute an attempt or show a restored version for the launcher, or execute a run that the UI has launched."""
    if "restored_dataset_id" in request:
        show_restored(request["restored_dataset_id"])
    elif "execution_id" in request:
        execute_attempt(run_id, Attempt(request["execution_id"], request["attempt"]))
    else:
        execute_run(run_id)


def _replace_process(home: Path, run_id: str, command: list[str], pidfile: int) -> NoReturn:
    """Become Dagster's own process of a run of another code location, which may have another interpreter.

    The process keeps the lock of its pidfile. Nobody deletes the file at its end: the next such run does.
    """
    list_alive(home / "runs")
    os.set_inheritable(pidfile, True)
    try:
        os.execvp(command[0], command)  # noqa: S606 - a command of Dagster
    except OSError as error:
        report_failure(run_id, f"The interpreter of this code location cannot be started: {command[0]}: {error}.")
        raise


def _end_runs(home: Path) -> None:
    """Terminate the runs, which stop their drivers, and then the drivers that are left, unless they can go on."""
    runs = [get_run_pidfile(home, run_id) for run_id in list_alive(home / "runs")]
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 0)):
        for pid in filter(None, map(read_alive_pid, runs)):
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while any(map(read_alive_pid, runs)) and time.monotonic() < deadline:
            time.sleep(0.05)
    compute = create_compute(Settings())
    if not compute.outlives_service:
        for handle in compute.list():
            compute.cancel(handle)


if __name__ == "__main__":
    main()
