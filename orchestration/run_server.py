"""Requests of Dagster's webserver and daemon, over a socket: start a run that a user has launched, or end one.

Runs of other code locations, which may have other interpreters, are processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from core.infra.pidfile import hold_pidfile, list_alive, read_alive_pid
from core.infra.run_socket import get_run_pidfile, get_run_socket
from driver.unix_socket import bind
from orchestration.runs import RunHost

REQUEST_SECONDS = 5.0


class RunServer:
    """Answers `ok` when a run has started, or is to end."""

    def __init__(self, home: Path, host: RunHost) -> None:
        self._home = home
        self._host = host

    def serve(self) -> None:
        path = get_run_socket(self._home)
        path.unlink(missing_ok=True)
        with bind(path) as server:
            server.listen(128)
            while True:
                connection, _ = server.accept()
                with connection, suppress(OSError):  # the other side has gone
                    connection.settimeout(REQUEST_SECONDS)
                    request = json.loads(connection.makefile().readline() or "null")
                    if request is not None and self._handle(request):
                        connection.sendall(b"ok")

    def end_processes(self) -> None:
        """Terminate the runs that are processes."""
        self._terminate(list_alive(self._home / "runs"))

    def _handle(self, request: dict[str, Any]) -> bool:
        run_id = request["run_id"]
        if request.get("interrupt"):
            if not self._host.threads.interrupt(run_id):
                self._terminate([run_id])
            return True
        if "command" in request:
            return self._start_process(run_id, request["command"])
        return self._host.threads.start(run_id, partial(self._host.execute_run, run_id))

    def _start_process(self, run_id: str, command: Sequence[str]) -> bool:
        """Start Dagster's own process of a run, which keeps the lock of its pidfile.

        The next run of this kind deletes the file, not its own end.
        """
        list_alive(self._home / "runs")
        try:
            with hold_pidfile(get_run_pidfile(self._home, run_id)) as pidfile:
                os.write(pidfile, b"0")
                process = subprocess.Popen(command, pass_fds=(pidfile,), start_new_session=True)
                os.pwrite(pidfile, str(process.pid).encode(), 0)
        except BlockingIOError:  # it runs
            return False
        except OSError as error:
            sentence = f"The interpreter of this code location cannot be started: {command[0]}: {error}."
            self._host.report_failure(run_id, sentence)
            return True
        threading.Thread(target=process.wait, name=f"process of run {run_id}", daemon=True).start()
        return True

    def _terminate(self, run_ids: Sequence[str]) -> None:
        for pid in (read_alive_pid(get_run_pidfile(self._home, each)) for each in run_ids):
            if pid not in (None, os.getpid()):
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGTERM)
