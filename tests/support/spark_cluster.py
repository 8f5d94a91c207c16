"""A Spark standalone cluster on this machine: a master and workers of one core each.

Every process has a folder of its own, and runs as another user where this one may change to it, and where all users may
run this Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pyspark

from tests.support.service import PATIENCE_SECONDS, free_port, wait_until

JARS = Path(pyspark.__file__).parent / "jars"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
HOST = "127.0.0.1"
NOBODY = 65534  # the id of a user without files


def _find_user() -> int | None:
    """Return the id of the user to run as; None for this one."""
    interpreter = Path(sys.executable).resolve()
    is_open = all(each.stat().st_mode & 0o001 for each in (interpreter, *interpreter.parents))
    return NOBODY if os.geteuid() == 0 and is_open else None


@dataclass(frozen=True, slots=True)
class SparkCluster:
    url: str
    workers: tuple[subprocess.Popen[bytes], ...]
    folder: Path

    def find_executors(self) -> list[psutil.Process]:
        """Return the JVMs of executors that run now, the oldest first."""
        children = [child for worker in self.workers for child in _list_children(worker.pid)]
        found: list[tuple[float, psutil.Process]] = []
        for each in children:
            with suppress(psutil.NoSuchProcess):  # it has just ended
                if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()):
                    found.append((each.create_time(), each))
        return [process for _, process in sorted(found, key=lambda each: each[0])]


@contextmanager
def start_cluster(workers: int = 2) -> Generator[SparkCluster]:
    port = free_port()
    url = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="spindle-cluster-", ignore_cleanup_errors=True)))
        folder.chmod(0o711)  # pytest's folders are closed to other users
        own = ["--host", HOST, "--webui-port", "0"]
        stack.enter_context(_run(folder / "master", [MASTER, *own, "--port", str(port)]))
        started: list[subprocess.Popen[bytes]] = []
        for number in range(workers):
            at = folder / f"worker-{number}"
            arguments = [WORKER, *own, "--cores", "1", "--memory", "1g", "--work-dir", str(at), url]
            started.append(stack.enter_context(_run(at, arguments)))
            wait_until(lambda: "Successfully registered" in (at / "log").read_text(), PATIENCE_SECONDS)  # noqa: B023
        yield SparkCluster(url, tuple(started), folder)


@contextmanager
def _run(folder: Path, arguments: list[str]) -> Generator[subprocess.Popen[bytes]]:
    folder.mkdir(parents=True)
    temporary = folder / "tmp"
    temporary.mkdir()
    user = _find_user()
    if user is not None:
        for each in (folder, temporary):
            os.chown(each, user, -1)
    environment = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
        "TMPDIR": str(temporary),
        "SPARK_HOME": str(JARS.parent),
        "SPARK_SCALA_VERSION": "2.13",  # as its scripts set it
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
    }
    command = ["java", "-Xmx256m", "-cp", f"{JARS}/*", arguments[0], *arguments[1:]]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, user=user)
    try:
        yield process
    finally:
        tree = [process.pid, *(child.pid for child in _list_children(process.pid))]
        for pid in reversed(tree):
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        process.wait(30)


def _list_children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
