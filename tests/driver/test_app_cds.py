from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest

from driver import app_cds
from pipelines.spark.session import build_app_cds_option

MAIN = "org.apache.spark.launcher.Main"


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    (found,) = Path(pyspark.__file__).parent.glob("jars/spark-launcher_*.jar")
    return Path(shutil.copy(found, tmp_path / "launcher.jar"))


def java(jar: Path, *options: str) -> bytes:
    """Start a class of the jar, which fails without arguments; return the output of the JVM."""
    command = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
    done = subprocess.run([command, *options, "-cp", jar, MAIN], capture_output=True, check=False)
    assert b"Not enough arguments" in done.stderr
    return done.stdout


def test_without_an_archive_there_is_no_option(tmp_path: Path) -> None:
    assert build_app_cds_option(tmp_path / "classes.jsa") == ""


def test_a_jvm_loads_classes_from_the_archive_until_their_jar_changes(tmp_path: Path, jar: Path) -> None:
    archive, log = tmp_path / "in a folder" / "classes.jsa", tmp_path / "log"
    archive.parent.mkdir()
    java(jar, f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds*=off")
    for source in ("shared objects file (top)", f"file:{jar}"):
        printed = java(jar, *shlex.split(build_app_cds_option(archive)), f"-Xlog:class+load:file={log}")
        assert f"{MAIN} source: {source}" in log.read_text()
        assert printed == b""
        os.utime(jar, (0, 0))


def test_an_archive_that_another_process_is_writing_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, waits, lock_file = tmp_path / "classes.jsa", threading.Event(), fcntl.flock
    monkeypatch.setattr(app_cds, "_run_session", lambda: pytest.fail("a second archive is written"))

    def report_and_lock(file: int, operation: int) -> None:
        waits.set()
        lock_file(file, operation)

    monkeypatch.setattr(fcntl, "flock", report_and_lock)
    with ThreadPoolExecutor() as pool:
        with archive.with_suffix(".lock").open("w") as lock:
            lock_file(lock, fcntl.LOCK_EX)
            second = pool.submit(app_cds.create_archive, archive)
            assert waits.wait(60)
            assert not second.done()
            archive.write_bytes(b"classes")
        second.result()
    assert archive.read_bytes() == b"classes"
