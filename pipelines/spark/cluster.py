"""Spark on other machines: the driver's address there, its executors, and their logs."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pipelines.errors import RunError

if TYPE_CHECKING:  # the service reads settings with this module, and carries no Spark
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
KUBERNETES = "k8s://"  # begins the address of such a master
MAX_LOG_BYTES = 64 * 1024
MAX_LOGS = 16
_CONNECT_SECONDS = 10.0
_EXECUTORS_SECONDS = 60.0
_LOG_SECONDS = 5.0
_HTTPS = 443
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOG_LINES = 2000
# the first line of Spark's answer
_RANGE = re.compile(r"==== Bytes \d+-\d+ of \d+ of .* ====\n")


def is_local_master(master: str) -> bool:
    """Return whether the driver's own process runs all tasks."""
    return master.startswith("local")


def has_executor_pods(master: str) -> bool:
    """Return whether Spark's own scheduler creates a pod for every executor."""
    return master.startswith(KUBERNETES)


def find_own_address(master: str) -> str:
    """Return the address of this machine at which the machines of a Spark master reach it. Raises RunError."""
    if is_local_master(master):
        return LOOPBACK
    first = urlsplit(master.removeprefix(KUBERNETES).split(",")[0])
    try:
        with socket.create_connection((first.hostname or "", first.port or _HTTPS), _CONNECT_SECONDS) as connection:
            return connection.getsockname()[0]
    except OSError as error:
        raise RunError(f"Spark's master {master} cannot be reached: {error.strerror or error}") from error


def await_executors(spark: SparkSession) -> None:
    """Wait for the first executors, so that the rows are divided among their cores.

    On a cluster without a free core this gives up after a minute; Spark itself continues to wait.
    """
    java: Any = spark.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    deadline = time.monotonic() + _EXECUTORS_SECONDS
    before = 0
    while time.monotonic() < deadline:
        number = java.sc().getExecutorMemoryStatus().size() - 1  # without the driver
        if number and number == before:
            break
        before = number
        time.sleep(0.5)
    spark.conf.set("spark.sql.shuffle.partitions", str(count_cores(spark.sparkContext)))


def count_cores(context: SparkContext) -> int:
    """Return the number of tasks that run at once; with dynamic allocation, on the most executors that are allowed."""
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled") != "true":
        return context.defaultParallelism
    return int(conf.get("spark.dynamicAllocation.maxExecutors", "1")) * int(conf.get("spark.executor.cores", "1"))


def read_executor_logs(context: SparkContext) -> Iterator[tuple[str, str]]:
    """Yield the ids of executors with the ends of their logs, which their machines or the cluster serve.

    Executors whose machine does not answer are left out.
    """
    import httpx  # only drivers of clusters need it

    if has_executor_pods(context.master or ""):
        yield from _read_pod_logs(context.master or "", context.applicationId)
        return
    java: Any = context._jsc  # pyright: ignore[reportPrivateUsage]
    found = java.sc().statusStore().executorList(False)
    for executor in [found.apply(index) for index in range(min(found.size(), MAX_LOGS + 1))]:
        logs = executor.executorLogs()
        if not logs.contains("stderr"):
            continue
        url = logs.apply("stderr").replace("/logPage/", "/log/").replace("/logPage?", "/log/?")
        with suppress(httpx.HTTPError):
            answer = httpx.get(f"{url}&byteLength={MAX_LOG_BYTES}", timeout=_LOG_SECONDS)
            if answer.is_success:
                yield executor.id(), _RANGE.sub("", answer.text, count=1)


def _read_pod_logs(master: str, application: str) -> Iterator[tuple[str, str]]:
    """Yield the ids and the ends of the logs of executors that are pods, with the token of the driver's own pod."""
    import httpx

    if not (_ACCOUNT / "token").exists():
        return
    pods = f"/api/v1/namespaces/{(_ACCOUNT / 'namespace').read_text()}/pods"
    headers = {"Authorization": f"Bearer {(_ACCOUNT / 'token').read_text()}"}
    trusted = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
    server = master.removeprefix(KUBERNETES)
    with (
        suppress(httpx.HTTPError, ValueError, KeyError),  # the rows are written; only the log is shorter
        httpx.Client(base_url=server, headers=headers, verify=trusted, timeout=_LOG_SECONDS, trust_env=False) as client,
    ):
        selector = {"labelSelector": f"spark-app-selector={application}", "limit": str(MAX_LOGS)}
        for pod in client.get(pods, params=selector).json()["items"]:
            metadata = pod["metadata"]
            answer = client.get(f"{pods}/{metadata['name']}/log", params={"tailLines": str(_LOG_LINES)})
            if answer.is_success:
                yield metadata["labels"]["spark-exec-id"], answer.content[-MAX_LOG_BYTES:].decode("utf-8", "replace")
