"""An AppCDS archive of Spark's classes, which a JVM maps instead of loading and verifying each class.

It halves the CPU time of a session's start and first job. `python -m driver.app_cds` writes it once for an
installation. A JVM of another version or with other jars starts without it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

from driver.warm_up import run_small_jobs
from pipelines.spark.session import APP_CDS_ARCHIVE, APP_CDS_LOGGING, start_session


def create_archive(archive: Path = APP_CDS_ARCHIVE) -> None:
    """Write the archive of the classes that a session and small pipelines load, in about half a minute.

    While another process writes it, wait for that one instead.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    found = _read_time(archive)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _read_time(archive) in (None, found):
            _write_archive(archive)


def _read_time(archive: Path) -> int | None:
    return archive.stat().st_mtime_ns if archive.exists() else None


def _write_archive(archive: Path) -> None:
    archive.unlink(missing_ok=True)  # a JVM that maps an archive writes none
    unfinished = archive.with_suffix(".part")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit='{unfinished}' {APP_CDS_LOGGING}"
    try:
        _run_session()
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())  # a JVM crashes on half an archive
        unfinished.replace(archive)
    finally:
        unfinished.unlink(missing_ok=True)


def _run_session() -> None:
    """Run small jobs in a new session and wait for the end of its JVM, which writes the archive."""
    spark = start_session()
    run_small_jobs(spark)
    gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # which ends the JVM
    gateway.proc.wait()


if __name__ == "__main__":
    create_archive()
