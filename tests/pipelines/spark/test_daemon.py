from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

LEAVE = "import sys; from pipelines.spark.daemon import remove_archives; {}; remove_archives(); import pyspark"


def archives(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker finds of archives on its path, whether it had to import what passes need or looks through it."""
    import gc
    import sys
    from zipimport import zipimporter

    found = [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]
    for _ in batches:
        ready, frozen = "pipelines.spark.tasks" in sys.modules, gc.get_freeze_count() > 10_000
        yield pa.RecordBatch.from_pydict({"found": [str(found)], "ready": [ready], "frozen": [frozen]})


def test_workers_have_no_archives_on_their_path_and_are_ready_for_passes(spark: SparkSession) -> None:
    schema = "found string, ready boolean, frozen boolean"
    (row,) = spark.range(1, numPartitions=1).mapInArrow(archives, schema).collect()
    assert (row.found, row.ready, row.frozen) == ("[]", True, True)


def test_a_zipped_pyspark_stays_on_the_path(tmp_path: Path) -> None:
    archive = tmp_path / "pyspark.zip"
    with ZipFile(archive, "w") as file:
        file.writestr("pyspark/__init__.py", "")
        file.writestr("py4j/__init__.py", "")
    alone = f"sys.path = [{str(archive)!r}, *(each for each in sys.path if not each.endswith('site-packages'))]"
    assert imported_after(alone) == str(archive / "pyspark/__init__.py")


def test_an_archive_of_spark_s_before_the_installed_one_is_passed_by_and_a_user_s_is_not(tmp_path: Path) -> None:
    spark, users = tmp_path / "pyspark.zip", tmp_path / "users.zip"
    for archive in (spark, users):
        with ZipFile(archive, "w") as file:
            file.writestr("pyspark/__init__.py", "")
    assert imported_after(f"sys.path.insert(0, {str(spark)!r})") == pyspark.__file__
    assert imported_after(f"sys.path.insert(0, {str(users)!r})") == str(users / "pyspark/__init__.py")


def imported_after(change: str) -> str:
    """Where a Python of its own, whose path is changed first, has PySpark from."""
    command = [sys.executable, "-c", f"{LEAVE.format(change)}; print(pyspark.__file__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
