"""A probe of Spark: a session in a separate process, whose result is valid for ten minutes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

import structlog

from core.infra.secrets import write_private
from core.infra.settings import Settings

FRESH_SECONDS = {True: 600.0, False: 30.0}  # by whether the probe has succeeded
PROBE_SECONDS = 120.0
PRIVATE = ("SPINDLE_", "DAGSTER_")  # prefixes of variables that may hold secrets

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Whether a session could be had at this time (seconds since 1970)."""

    at: float
    works: bool

    @property
    def is_fresh(self) -> bool:
        return 0 <= time.time() - self.at < FRESH_SECONDS[self.works]


class SparkProbe:
    """Probes Spark in the background. Processes share the result in DATA/spark-probe.json."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = settings.data / "spark-probe.json"
        self._lock = threading.Lock()
        self._running: threading.Thread | None = None

    def read_result(self) -> ProbeResult | None:
        """Return the last result; None before the first probe has ended."""
        try:
            return ProbeResult(**json.loads(self._path.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def begin(self) -> None:
        """Begin a probe in the background, unless one runs."""
        with self._lock:
            if self._running is None or not self._running.is_alive():
                self._running = threading.Thread(target=self._probe, name="spark probe", daemon=True)
                self._running.start()

    def _probe(self) -> None:
        works = _start_session(self._settings)
        write_private(self._path, json.dumps(asdict(ProbeResult(time.time(), works))))


def _start_session(settings: Settings) -> bool:
    """Return whether a Spark session in a new process has run a job in time."""
    command = [sys.executable, "-P", "-m", "driver.probe", settings.spark.master, settings.spark.driver_memory]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
    process = subprocess.Popen(
        command,
        cwd=settings.data,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        output = b"It took too long."
    finally:
        # Python, if it took too long, and its JVM
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        log.warning("no Spark session", reason=output.decode("utf-8", "replace")[-2000:])
    return process.returncode == 0
