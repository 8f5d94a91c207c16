"""Facts about the Spark of this instance, without starting it, and its health."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from core.definitions.identity.api_keys import Identity
from core.errors import Unavailable
from core.infra.pidfile import list_alive
from core.infra.run_socket import get_run_socket
from core.infra.settings import Settings
from core.lifecycle.spark.probe import SparkProbe

LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,.*)?\])?")
JAVA_VERSION = re.compile(r'^JAVA_VERSION="(.+)"$', re.MULTILINE)
CONNECT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """The resources of a driver. `cores` is None for a master on other machines, `java_version` where it is unknown."""

    version: str
    java_version: str | None
    python_version: str
    master: str
    cores: int | None
    driver_memory: str
    running_drivers: int


class SparkService:
    """Answers from settings, files and sockets; only the health starts Spark, every ten minutes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._probe = SparkProbe(settings)

    def describe(self, caller: Identity) -> SparkFacts:
        """Return the facts; drivers are those of the caller's organization."""
        drivers = list_alive(self._settings.data / "drivers")
        return SparkFacts(
            version=version("pyspark"),
            java_version=_find_java_version(),
            python_version=".".join(map(str, sys.version_info[:3])),
            master=self._settings.spark_master,
            cores=_count_cores(self._settings.spark_master),
            driver_memory=self._settings.spark_driver_memory,
            running_drivers=sum(name.startswith(f"{caller.organization_id}.") for name in drivers),
        )

    def check_health(self) -> None:
        """Raise Unavailable when no Spark session can be had."""
        if _find_java() is None:
            raise Unavailable("There is no Java, which Spark needs. Set JAVA_HOME to the folder of Java 17 or 21.")
        if find_spec("pyspark") is None:
            raise Unavailable("PySpark is not installed.")
        if not self._is_run_server_alive():
            raise Unavailable("The process that starts drivers does not answer. Look into the log of `spindle up`.")
        if not self._probe.load_result().works:
            raise Unavailable("A Spark session could not be started. The reason is in the log of the API.")

    def _is_run_server_alive(self) -> bool:
        path = get_run_socket(self._settings.data.resolve() / "dagster")
        with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
            connection.settimeout(CONNECT_SECONDS)
            connection.connect(path)
            return True
        return False


def _count_cores(master: str) -> int | None:
    match = LOCAL_MASTER.fullmatch(master)
    if match is None:
        return None
    cores = match[1] or "1"
    return len(os.sched_getaffinity(0)) if cores == "*" else int(cores)


def _find_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


@cache
def _find_java_version() -> str | None:
    """Return the version in the file `release` of Java's folder, because starting Java takes longer."""
    java = _find_java()
    if java is None:
        return None
    with suppress(OSError):
        found = JAVA_VERSION.search((Path(java).resolve().parents[1] / "release").read_text())
        return found[1] if found else None
    return None
