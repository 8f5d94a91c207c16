"""A host of drivers: a process on this machine to which the launcher gives executions over a Unix socket.

With Spark it serves executions of one organization, one after another; without it each execution is a fork of it. Only
the launcher that has started it gives it executions, and it ends when its standard input does. DATA/scratch/<name> is
its folder, with a pidfile, by which any later launcher finds whether it lives.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from core.infra.pidfile import hold_pidfile, is_alive
from core.infra.processes import signal_group
from driver.host_folder import HOST_FILE, READY, SOCKET, HostSpec
from driver.transport import HostRequest, send_to_socket
from orchestration.compute.processes import build_environment, kill_trees, list_tree
from pipelines.contract.request import RunRequest

SPARES, FORKS = "spare-", "forks-"  # beginnings of names
PIDFILE, LOG = "pid", "host.log"
END_SECONDS = 2.0
# of Arrow's memory and of numpy, which a fork would not survive
WITHOUT_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(slots=True, eq=False)
class Host:
    """A started host: whose executions it serves, and whether it has one."""

    folder: Path
    spec: HostSpec
    fingerprint: str
    process: subprocess.Popen[bytes]
    organization_id: str | None = None  # of its executions; None before the first one
    is_shared: bool = True  # it serves others after its present execution
    is_retired: bool = False  # a cancel may still kill it
    start_seconds: float = 0.0
    _is_claimed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def listens(self) -> bool:
        return (self.folder / SOCKET).exists()

    @property
    def is_free(self) -> bool:
        # in this order: where it listens again after an execution, the cancel of that has retired it already
        return self.listens and not self.is_retired and not self._is_claimed

    @property
    def is_ready(self) -> bool:
        """Whether Spark has started, and the small job is done."""
        return (self.folder / READY).exists()

    @property
    def is_used(self) -> bool:
        """Whether it has, or had, an execution."""
        return self.organization_id is not None

    def fits(self, spec: RunRequest) -> bool:
        """Return whether an execution may have the host once that is free."""
        wanted = (None, spec.organization_id) if spec.reuses_driver else (None,)
        return not spec.has_own_process and self.organization_id in wanted and self.spec.fits(spec.spark)

    def claim(self, spec: RunRequest | None = None) -> bool:
        """Reserve the host for an execution or, without one, for its end.

        Return False where it has an execution, or is reserved, or has become another organization's since it was found.
        """
        with self._lock:
            if self._is_claimed or not self.listens:
                return False
            if spec is not None and (self.is_retired or not self.fits(spec)):
                return False
            self._is_claimed = True
            return True

    def send_execution(self, request: HostRequest, log: int, lock: int) -> bool:
        """Give an execution to the claimed host; return False when that does not answer, and is to be killed."""
        self.organization_id = request.spec.organization_id
        self.is_shared = request.spec.reuses_driver and self.spec.executions > 1
        if not self.fork(request, log, lock):
            return False
        self._is_claimed = False  # it listens no more
        return True

    def fork(self, request: HostRequest, log: int, lock: int) -> bool:
        """Let a host of forks start a driver, whose pid is then in the locked pidfile; False without an answer."""
        return send_to_socket(self.folder / SOCKET, request, log, lock)

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def release(self) -> None:
        """Let the host end, after its execution where it has one: its standard input ends."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def end(self) -> None:
        """End a host without an execution; its forks go on. One that does not react is killed."""
        self.release()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        if self.spec.spark is not None:
            signal_group(self.process.pid, signal.SIGKILL)  # a JVM that was just starting

    def kill(self) -> None:
        """Kill a host that does not answer, with all that it has started except forks."""
        if self.spec.spark is not None:
            kill_trees(list_tree(self.process.pid))
        self.process.kill()
        self.process.wait()

    def read_last_line(self) -> str:
        """Return the last line of its own log, empty without one."""
        with suppress(OSError):
            lines = (self.folder / LOG).read_text(errors="replace").splitlines()
            return lines[-1] if lines else ""
        return ""

    def remove(self) -> None:
        """Remove the files of an ended host."""
        shutil.rmtree(self.folder, ignore_errors=True)


def start_host(data: Path, spec: HostSpec, fingerprint: str) -> Host:
    """Start a host in this data folder, which ends with the process that has started it."""
    folder = data / "scratch" / f"{FORKS if spec.spark is None else SPARES}{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700, parents=True)
    (folder / HOST_FILE).write_text(spec.model_dump_json(by_alias=True))
    with hold_pidfile(folder / PIDFILE) as lock, (folder / LOG).open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "driver", "--host", str(folder)],
            cwd=data,
            env=_build_environment(folder, spec),
            stdin=subprocess.PIPE,  # its end shows the host that this process has ended
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock,),
        )
        os.pwrite(lock, f"{process.pid}\n".encode(), 0)
    return Host(folder, spec, fingerprint, process)


def is_host_alive(folder: Path) -> bool:
    """Return whether the host of this folder lives, whoever has started it."""
    return is_alive(folder / PIDFILE)


def remove_ended(data: Path) -> None:
    """Remove the folders of hosts that have ended, for instance after a launcher was killed."""
    for prefix in (SPARES, FORKS):
        for folder in (data / "scratch").glob(f"{prefix}*"):
            if not is_host_alive(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _build_environment(folder: Path, spec: HostSpec) -> Mapping[str, str]:
    return {**build_environment(str(folder)), **(WITHOUT_THREADS if spec.spark is None else {})}
