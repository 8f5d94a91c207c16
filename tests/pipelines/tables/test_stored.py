"""Tables whose files were merged, or whose snapshots have expired, as Spark reads and continues them."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.contract.request import Target
from pipelines.language.formats import Mode
from pipelines.tables.commits import Write, write_version
from pipelines.tables.spark_tables import open_table
from pipelines.tables.stored import open_stored_table
from tests.support.libraries import needs_libraries

pytestmark = [pytest.mark.long, pytest.mark.folder, needs_libraries]


class Lake:
    """A table that Spark writes, one row at a time."""

    def __init__(self, spark: SparkSession, folder: Path, format_: str) -> None:
        self.spark = spark
        self.format = format_
        self.target = Target(location=str(folder / "prices"))
        self.table = open_table(spark, format_, str(folder / "prices"))
        self.stored = open_stored_table(format_, str(folder / "prices"), None)

    def append(self, id_: int, publish: bool = True, share: float = 0.5, by: tuple[str, ...] = ()) -> str:
        rows = self.spark.createDataFrame([(id_, f"row {id_}", share)], "id bigint, name string, share double")
        write = Write(Mode.APPEND, (), by, f"execution-{id_}", int(time.time() * 1000))
        snapshot = write_version(self.table, rows, write, self.target).snapshot
        if publish:
            self.target = replace(self.target, exists=True, format=self.format, snapshot=snapshot)
        return snapshot

    def merge_files(self, author: str) -> str:
        merged = self.stored.merge_files(self.target.snapshot or "", author)
        assert merged is not None
        assert (merged.merged, merged.written) == (len(self.stored.list_files(self.target.snapshot or "")), 1)
        return merged.snapshot

    def read(self, snapshot: str) -> list[int]:
        self.spark.catalog.clearCache()
        return sorted(row.id for row in self.table.read(snapshot).collect())


@pytest.fixture(params=["delta", "iceberg"])
def lake(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return Lake(spark, tmp_path, request.param)


def test_spark_continues_merged_files(lake: Lake) -> None:
    earlier = [lake.append(id_) for id_ in (1, 2, 3)]
    merged = lake.merge_files("maintenance:1")
    lake.target = replace(lake.target, snapshot=merged)
    later = lake.append(4)
    assert [lake.read(each) for each in (*earlier, merged, later)] == [[1], [1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3, 4]]
    assert len(lake.stored.list_files(later)) == 2


def test_files_that_were_merged_and_not_recorded_are_taken_back(lake: Lake) -> None:
    lake.append(1)
    lake.append(2)
    lake.merge_files("maintenance:1")
    time.sleep(0.05)  # the next execution begins after the commit
    later = lake.append(3)
    assert (lake.read(later), len(lake.stored.list_files(later))) == ([1, 2, 3], 3)


def test_a_commit_that_was_merged_and_never_published_is_taken_back(lake: Lake) -> None:
    lake.append(1)
    published = lake.append(2)
    lake.target = replace(lake.target, snapshot=lake.append(3, publish=False))
    lake.merge_files("maintenance:1")
    lake.target = replace(lake.target, snapshot=published)
    time.sleep(0.05)
    assert lake.read(lake.append(4)) == [1, 2, 4]


def test_rows_of_partitions_of_all_numbers_stay(lake: Lake) -> None:
    for id_, share in enumerate([0.5, 0.5, math.nan, math.nan]):
        lake.append(id_, share=share, by=("share",))
    merged = lake.stored.merge_files(lake.target.snapshot or "", "maintenance:1")
    assert merged is not None
    assert lake.read(merged.snapshot) == [0, 1, 2, 3]


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_spark_continues_a_table_whose_snapshots_have_expired(lake: Lake) -> None:
    first, second, third = (lake.append(id_) for id_ in (1, 2, 3))
    time.sleep(0.01)
    unused = lake.stored.find_unused_files([first, third], 0)
    assert unused, "the list of the second snapshot, whose data files the third has too"
    for file in unused:
        Path(file).unlink()
    assert [lake.read(each) for each in (first, third)] == [[1], [1, 2, 3]]
    with pytest.raises(Exception, match="Cannot find snapshot"):
        lake.read(second)
    assert lake.read(lake.append(4)) == [1, 2, 3, 4]
