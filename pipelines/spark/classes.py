"""Spark's classes in one file, which a JVM maps instead of reading and checking each: half of what a session's start
and its first job cost. `python -m pipelines.spark.classes` makes it, once for an installation.

A JVM of another version, or with other jars than the file was made with, sees that and starts without it. It archives
no class of a signed jar, and checks each by its signature: beside the file lie copies of such jars without signatures.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import pyspark

ARCHIVE = Path(sys.prefix) / "share/spindle/spark-classes.jsa"
_SIGNED = ("commons-compiler-*.jar", "janino-*.jar")  # what compiles the code that Spark generates
_QUIET = "-Xlog:cds*=off"  # warnings go to standard output
# what most pipelines do; the guard refuses the address, so nothing is fetched
_CRAWL = """
fetch: {url: "http://127.0.0.1:9/"}
pipeline:
  - {stage: wgetJoin, args: ["a"]}
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
  - {stage: dedup, args: [title]}
spindle: {maxFailureRatio: 1, robots: ignore}
"""
_TABLE = """
pipeline:
  - {stage: load_csv, args: [{path: "${FILE}", header: true}]}
"""


def java_option(archive: Path = ARCHIVE) -> str:
    """What tells a JVM to map the file; nothing where it is not made."""
    return f"-XX:SharedArchiveFile='{archive}' {_QUIET}" if archive.exists() else ""


def class_path(folder: Path = ARCHIVE.parent) -> str:
    """The unsigned copies, to come before Spark's own jars; empty where they are not made, or of another Spark."""
    return os.pathsep.join(str(folder / jar.name) for jar in _signed_jars() if (folder / jar.name).exists())


def make(archive: Path = ARCHIVE) -> None:
    """Makes the file from what a session and small pipelines load; about half a minute."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)  # a JVM that maps one writes none
    for jar in _signed_jars():
        copy_unsigned(jar, archive.parent / jar.name)
    unfinished = archive.with_suffix(f".{os.getpid()}.part")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit='{unfinished}' {_QUIET}"
    try:
        _work()
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())  # a JVM that maps half a file dies of it
        unfinished.replace(archive)
    finally:
        unfinished.unlink(missing_ok=True)


def copy_unsigned(jar: Path, copy: Path) -> None:
    """Copies what a jar holds, without its signatures and what else describes it."""
    unfinished = copy.with_suffix(f".{os.getpid()}.part")
    with ZipFile(jar) as signed, ZipFile(unfinished, "w") as unsigned:
        for entry in signed.infolist():
            if not entry.filename.startswith("META-INF/"):
                unsigned.writestr(entry, signed.read(entry))
    unfinished.replace(copy)


def _signed_jars() -> list[Path]:
    jars = Path(pyspark.__file__).parent / "jars"
    return [jar for pattern in _SIGNED for jar in sorted(jars.glob(pattern))]


def _work() -> None:
    """A session of its own, to the end of its JVM."""
    from pipelines.pipeline import Pipeline
    from pipelines.spark.run import Run
    from pipelines.spark.session import session

    spark = session()
    with TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        table.write_text("name,price\na,1\n")
        for number, text in enumerate((_CRAWL, _TABLE)):
            with Run(Pipeline.from_yaml(text).plan({"FILE": str(table)})) as run:
                run.write(spark, f"{folder}/{number}")
    gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends by that
    gateway.proc.wait()


if __name__ == "__main__":
    make()
