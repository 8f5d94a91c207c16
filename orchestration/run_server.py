"""`python -m orchestration.run_server`: execute the Dagster runs of the service, each in a thread.

A run shows what its driver does, so one process has all of them: a run costs no process and no connections of its own.
Runs of other code locations, which may have other interpreters, are processes.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from contextlib import ExitStack, suppress
from pathlib import Path
from traceback import format_exception
from types import FrameType
from typing import Any

from core.infra.pidfile import hold_pidfile, list_alive, read_alive_pid
from core.infra.run_socket import get_run_pidfile, get_run_socket
from core.infra.settings import Settings
from orchestration.acceptance import Attempt
from orchestration.compute import create_compute
from orchestration.dagster_internals import import_before_fork
from orchestration.runs import RunHost, open_run_host, preload
from pipelines.registry import load_plugins

STOP_SECONDS = 12
REQUEST_SECONDS = 5.0
FRAMES = 100


def main() -> None:
    import_before_fork()
    load_plugins()
    preload()
    warnings.filterwarnings("ignore", message=".* is currently in preview")  # about Dagster's own Pipes
    sys.tracebacklimit = 0  # Dagster shows sentences; our own logs say how many frames they want
    home = Path(os.environ["DAGSTER_HOME"])
    (home / "runs").mkdir(exist_ok=True)
    settings = Settings()
    with open_run_host(settings) as host:
        gc.freeze()
        server = RunServer(home, host)
        signal.signal(signal.SIGTERM, _raise_exit)
        server.resume()
        try:
            server.serve()
        finally:
            compute = create_compute(settings)
            if compute.outlives_service:
                os._exit(0)  # the runs go on when the service is there again
            server.stop()
            for handle in compute.list():
                compute.cancel(handle)


def _raise_exit(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


class RunServer:
    """Starts and interrupts runs at requests over a socket. A run holds its pidfile in DAGSTER_HOME/runs."""

    def __init__(self, home: Path, host: RunHost) -> None:
        self._home = home
        self._host = host
        self._runs: dict[str, tuple[threading.Thread, threading.Event]] = {}

    def serve(self) -> None:
        path = get_run_socket(self._home)
        Path(path).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen(128)
            print(json.dumps({"level": "info", "event": "ready to run"}), flush=True)
            while True:
                connection, _ = server.accept()
                with connection, suppress(OSError):  # the other side has gone
                    connection.settimeout(REQUEST_SECONDS)
                    request = json.loads(connection.makefile().readline() or "null")
                    if request is not None and self._handle(request):
                        connection.sendall(b"ok")

    def resume(self) -> None:
        """Go on with the runs that an earlier run server has left."""
        for run_id in self._host.list_interrupted():
            self._handle({"run_id": run_id, "resumes": True})

    def stop(self) -> None:
        """Interrupt the runs, which stop their drivers, and wait for them."""
        runs = [*self._runs.values()]
        for _, interrupt in runs:
            interrupt.set()
        foreign = [get_run_pidfile(self._home, run_id) for run_id in list_alive(self._home / "runs")]
        _signal(foreign, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for thread, _ in runs:
            thread.join(max(0, deadline - time.monotonic()))
        while any(map(_read_foreign_pid, foreign)) and time.monotonic() < deadline:
            time.sleep(0.05)
        _signal(foreign, signal.SIGKILL)

    def _handle(self, request: dict[str, Any]) -> bool:
        """Return whether the run was started, or interrupted."""
        run_id = request["run_id"]
        pidfile = get_run_pidfile(self._home, run_id)
        if request.get("interrupt"):
            if run_id in self._runs:
                self._runs[run_id][1].set()
            else:
                _signal([pidfile], signal.SIGTERM)
            return True
        with ExitStack() as stack:
            try:
                descriptor = stack.enter_context(hold_pidfile(pidfile))
            except BlockingIOError:  # it runs
                return False
            os.write(descriptor, str(os.getpid()).encode())
            if "command" in request:
                self._start_process(run_id, request["command"], descriptor)
                return True
            interrupt = threading.Event()
            held = stack.pop_all()
            thread = threading.Thread(
                target=self._run, args=(request, interrupt, held), name=f"run {run_id}", daemon=True
            )
            self._runs[run_id] = thread, interrupt
            thread.start()
        return True

    def _run(self, request: dict[str, Any], interrupt: threading.Event, held: ExitStack) -> None:
        run_id = request["run_id"]
        try:
            self._execute(run_id, request, interrupt)
        except Exception as error:
            trace = "".join(format_exception(error, limit=FRAMES))
            print(json.dumps({"level": "error", "event": "a run failed", "run_id": run_id, "error": trace}), flush=True)
        finally:
            get_run_pidfile(self._home, run_id).unlink(missing_ok=True)
            held.close()
            del self._runs[run_id]

    def _execute(self, run_id: str, request: dict[str, Any], interrupt: threading.Event) -> None:
        """Execute an attempt or show a restored version for the launcher, or execute a run that the UI has launched."""
        if "restored_dataset_id" in request:
            self._host.show_restored(request["restored_dataset_id"])
        elif "resumes" in request:
            self._host.resume(run_id, interrupt)
        elif "execution_id" in request:
            self._host.execute_attempt(run_id, Attempt(request["execution_id"], request["attempt"]), interrupt)
        else:
            self._host.execute_run(run_id, interrupt)

    def _start_process(self, run_id: str, command: list[str], pidfile: int) -> None:
        """Start Dagster's own process of a run of another code location, which keeps the lock of its pidfile.

        Nobody deletes the file at its end: the next such run does.
        """
        list_alive(self._home / "runs")
        try:
            process = subprocess.Popen(command, pass_fds=(pidfile,), start_new_session=True)
        except OSError as error:
            sentence = f"The interpreter of this code location cannot be started: {command[0]}: {error}."
            self._host.report_failure(run_id, sentence)
            return
        os.pwrite(pidfile, f"{process.pid} ".encode().ljust(16), 0)
        threading.Thread(target=process.wait, name=f"process of run {run_id}", daemon=True).start()


def _signal(pidfiles: list[Path], number: signal.Signals) -> None:
    for pid in filter(None, map(_read_foreign_pid, pidfiles)):
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, number)


def _read_foreign_pid(pidfile: Path) -> int | None:
    """Return the pid of a living run that is a process of its own."""
    pid = read_alive_pid(pidfile)
    return pid if pid != os.getpid() else None


if __name__ == "__main__":
    main()
