"""The server of forks: kept by the launcher, and used for executions that begin without Spark.

It is driver/fork_host.py, with its socket in DATA/drivers.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import structlog

from core.infra.settings import Settings
from driver.host_folder import FORKS
from driver.transport import HostRequest, send_to_socket
from orchestration.compute.processes import build_environment
from orchestration.compute.spares import CHECK_SECONDS, FIRST_PAUSE, LONGEST_PAUSE, compute_fingerprint

# of Arrow's memory and of numpy, which a fork would not survive
_WITHOUT_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}

POLL_SECONDS = 1.0  # executions start processes of their own while there is no server

log = structlog.get_logger()


def fork_driver(data: Path, request: HostRequest, log_file: int, lock: int) -> bool:
    """Let the server fork a driver, whose pid is then in the locked pidfile; return False when it does not answer."""
    return (data / FORKS).exists() and send_to_socket(data / FORKS, request, log_file, lock)


class ForkServer:
    """Starts the server of a data folder, and replaces it where it has ended or the code has changed."""

    def __init__(self, settings: Settings) -> None:
        self._data = settings.data.resolve()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, stop: threading.Event) -> None:
        """Keep the server until `stop` is set. Its forks go on."""
        pause, fingerprint, waited = FIRST_PAUSE, "", CHECK_SECONDS
        while not stop.is_set():
            if waited >= CHECK_SECONDS:
                waited, before, fingerprint = 0.0, fingerprint, compute_fingerprint()
                if before not in ("", fingerprint):
                    self.close()
            if self._process is not None and self._process.poll() is not None:
                log.warning("the server of forks ended", exit_code=self._process.returncode, pause=pause)
                self.close()
                stop.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            if self._process is None and not stop.is_set():
                self._process = self._start()
            stop.wait(POLL_SECONDS)
            waited += POLL_SECONDS
        self.close()

    def close(self) -> None:
        """End the server: its standard input ends."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        with (self._data / "forks.log").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "driver", "--forks", str(self._data)],
                cwd=self._data,
                env={**build_environment(str(self._data / "scratch")), **_WITHOUT_THREADS},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
