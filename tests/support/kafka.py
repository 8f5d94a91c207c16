"""A real Kafka broker on loopback: one JVM, with the jars that the Maven repository of the machine has."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pipelines.language.formats import VARIABLE
from pipelines.spark.jars import LibrariesMissing, get_cache_folder, list_spark_folders, require_jars
from tests.support.service import free_port

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"
BROKER = "org.apache.kafka:kafka_2.13:3.9.1"
START_SECONDS = 180
CLUSTER = "AAAAAAAAQAGAAAAAAAAAAQ"  # an id
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/log
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@contextmanager
def serve_kafka(monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """Yield the address of a broker; skip where its jars, or those of Spark's connector, cannot be had."""
    with monkeypatch.context() as patched:
        patched.setenv(VARIABLE, f"kafka={CONNECTOR}; broker={BROKER}")
        patched.setenv("SPINDLE_JARS", str(get_cache_folder()))
        try:
            require_jars(["kafka"])
            jars = require_jars(["broker"])
        except LibrariesMissing as error:
            pytest.skip(f"Kafka cannot be fetched: {error}")
    with TemporaryDirectory(prefix="spindle-kafka-") as folder:
        port = free_port()
        settings = Path(folder) / "server.properties"
        settings.write_text(SETTINGS.format(port=port, controller=free_port(), folder=folder))
        classpath = os.pathsep.join([*map(str, jars), *(f"{each}/*" for each in list_spark_folders())])
        java = [shutil.which("java") or "java", "-Xmx256m", "-cp", classpath]
        with (Path(folder) / "out").open("wb") as out:
            subprocess.run(
                [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)],
                check=True,
                stdout=out,
                stderr=out,
            )
            broker = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=out, stderr=out)
            try:
                _await_port(broker, port, Path(folder) / "out")
                yield f"127.0.0.1:{port}"
            finally:
                broker.send_signal(signal.SIGKILL)
                broker.wait()


def _await_port(broker: subprocess.Popen[bytes], port: int, out: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while broker.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise AssertionError(f"Kafka did not start: {out.read_text()[-2000:]}")
