"""Facts about the Spark of this instance, without starting it, and its health."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ConfigDict
from sqlalchemy import func, select

from core.definitions.identity.api_keys import Identity
from core.errors import Unavailable
from core.infra.database import Database
from core.infra.pidfile import list_alive
from core.infra.records import RECORD, Record
from core.infra.run_socket import get_run_socket
from core.infra.settings import Settings
from core.lifecycle.spark.probe import ProbeResult, SparkProbe
from core.tables import Execution
from core.tables.states import State
from driver.unix_socket import connect
from pipelines.language.formats import FORMATS
from pipelines.listing import list_formats
from pipelines.spark.cluster import has_executor_pods

LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,.*)?\])?")
JAVA_VERSION = re.compile(r'^JAVA_VERSION="(.+)"$', re.MULTILINE)
CONNECT_SECONDS = 0.5
RECENT_EXECUTIONS = 200


class SparkInfo(Record):
    """The resources of a driver, and of its executors where these are pods."""

    version: str
    """Version of Spark."""
    java_version: str | None
    """Version of Java; null when it cannot be found out without starting it, or is the image's."""
    python_version: str | None
    """Version of Python, in which drivers and rows' functions run; null when it is the image's."""
    master: str
    """Spark master of the drivers."""
    cores: int | None
    """Cores that a driver uses; null when they are another machine's."""
    driver_memory: str
    """Heap of a driver's JVM, such as `2g`."""
    running_drivers: int
    """Number of the organization's drivers that run now."""
    compute: Literal["local", "kubernetes"]
    """Where drivers run: on the machine of the service, or as pods of a cluster."""
    namespace: str | None = None
    """Namespace of the pods; like the next fields, null unless drivers are pods."""
    image: str | None = None
    """Image of the pods."""
    executors: int | None = None
    """Pods with executors that an execution has; 0 when its driver runs all tasks."""
    executor_cores: int | None = None
    """Tasks that an executor runs at once; null without executors."""
    executor_memory: str | None = None
    """Heap of an executor's JVM, such as `1g`; null without executors."""
    running_executors: int | None = None
    """Number of the organization's executors that run now."""


@dataclass(frozen=True, slots=True)
class SparkFormats:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    read: Sequence[str]
    """Formats of the files that `load_*` stages read."""
    written: Sequence[str]
    """Formats of the files that `save_*` stages write."""
    output: Sequence[str]
    """Formats of the tables that executions publish."""


class SparkService:
    """Answers from settings, files, sockets and executions; a probe begins when the last result has expired."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._probe = SparkProbe(settings)

    def describe(self, caller: Identity) -> SparkInfo:
        """Return the facts; drivers are those of the caller's organization. Raises Unavailable for a cluster."""
        if self._settings.drivers.compute == "kubernetes":
            return self._describe_cluster(caller)
        drivers = list_alive(self._settings.data / "drivers")
        return SparkInfo(
            version=version("pyspark"),
            java_version=_find_java_version(),
            python_version=".".join(map(str, sys.version_info[:3])),
            master=self._settings.spark.master,
            cores=_count_cores(self._settings.spark.master),
            driver_memory=self._settings.spark.driver_memory,
            running_drivers=sum(name.startswith(f"{caller.organization_id}.") for name in drivers),
            compute=self._settings.drivers.compute,
        )

    def _describe_cluster(self, caller: Identity) -> SparkInfo:
        from core.lifecycle.spark.cluster import count_pods  # its client takes a second to import

        settings = self._settings
        running = count_pods(settings, caller.organization_id)
        has_executors = has_executor_pods(settings.spark.master)
        return SparkInfo(
            version=version("pyspark"),
            java_version=None,
            python_version=None,
            master=settings.spark.master,
            cores=None,
            driver_memory=settings.spark.driver_memory,
            running_drivers=running.get("driver", 0),
            compute=settings.drivers.compute,
            namespace=settings.kubernetes.namespace,
            image=settings.kubernetes.image,
            executors=settings.kubernetes.executors if has_executors else 0,
            executor_cores=settings.kubernetes.executor_cores if has_executors else None,
            executor_memory=settings.spark.executor_memory if has_executors else None,
            running_executors=running.get("executor", 0),
        )

    def list_formats(self) -> SparkFormats:
        return SparkFormats(*list_formats(), FORMATS)

    def check_health(self) -> float:
        """Return how many seconds ago Spark has worked; raise Unavailable when no session can be had.

        That is known from the last probe, and from executions since then. An expired result begins a new probe. A
        cluster is asked now whether it accepts a driver.
        """
        if self._settings.drivers.compute == "kubernetes":
            return self._check_cluster()
        if _find_java() is None:
            raise Unavailable("There is no Java, which Spark needs. Set JAVA_HOME to the folder of Java 17 or 21.")
        if find_spec("pyspark") is None:
            raise Unavailable("PySpark is not installed.")
        self._check_run_server()
        known = [each for each in (self._probe.read_result(), self._find_last_session()) if each]
        newest = max(known, key=lambda each: each.at, default=None)
        if newest is None or not newest.is_fresh:
            self._probe.begin()
        if newest is None:
            raise Unavailable("Whether Spark works is being tested. Ask again in a moment.")
        age = max(0.0, time.time() - newest.at)
        if not newest.works:
            sentence = f"A Spark session could not be started {age:.0f} s ago. The reason is in the log of the API."
            raise Unavailable(sentence)
        return age

    def _check_cluster(self) -> float:
        from core.lifecycle.spark.cluster import check_cluster  # its client takes a second to import

        self._check_run_server()
        check_cluster(self._settings)
        return 0.0

    def _find_last_session(self) -> ProbeResult | None:
        """Return when one of the newest executions last reported from a Spark session."""
        newest = select(Execution.spark_ui_url, Execution.heartbeat_at, Execution.state)
        recent = newest.order_by(Execution.id.desc()).limit(RECENT_EXECUTIONS).subquery()
        working = recent.c.state.in_([State.RUNNING, State.COMPLETED])
        query = select(func.max(recent.c.heartbeat_at)).where(recent.c.spark_ui_url.is_not(None), working)
        with self._database.read() as session:
            at = session.scalar(query)
        return None if at is None else ProbeResult(at.timestamp(), works=True)

    def _check_run_server(self) -> None:
        try:
            connect(get_run_socket(self._settings.data.resolve() / "dagster"), CONNECT_SECONDS).close()
        except OSError as error:
            sentence = "The process that starts drivers does not answer. Look into the log of `spindle up`."
            raise Unavailable(sentence) from error


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
