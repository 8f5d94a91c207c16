"""Tables whose files were merged, or whose snapshots have expired, as Spark reads and continues them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from core.data.datasets.delta_tables import merge_delta_files
from core.data.datasets.iceberg_tables import expire_iceberg_snapshots, merge_iceberg_files
from core.data.datasets.version_files import list_version_files
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import table_key
from pipelines.language.formats import Mode
from pipelines.planning.context import Target
from pipelines.spark.table_formats import open_table
from pipelines.spark.tables import Write, write_version
from tests.support.libraries import needs_libraries

pytestmark = [pytest.mark.long, pytest.mark.folder, needs_libraries]


class Lake:
    """A table that Spark writes, one row at a time."""

    def __init__(self, spark: SparkSession, folder: Path, format_: str) -> None:
        self.spark = spark
        self.format = format_
        self.storage = open_storage(Settings(data=folder).storage)
        self.organization = str(uuid4())
        self.location = table_key(self.organization, "prices", format_)
        self.target = Target(location=self.storage.url_for(self.location, "spark"))
        self.table = open_table(spark, format_, self.target.location or "")

    def append(self, id_: int, publish: bool = True) -> str:
        rows = self.spark.createDataFrame([(id_, f"row {id_}")], "id bigint, name string")
        write = Write(Mode.APPEND, (), (), f"execution-{id_}", int(time.time() * 1000))
        snapshot = write_version(self.table, rows, write, self.target).snapshot
        if publish:
            self.target = replace(self.target, exists=True, format=self.format, snapshot=snapshot)
        return snapshot

    def merge_files(self, author: str) -> str:
        merge = merge_delta_files if self.format == "delta" else merge_iceberg_files
        merged = merge(self.storage, self.location, self.target.snapshot or "", author)
        assert (merged.merged, merged.written) == (len(self.list_files(self.target.snapshot or "")), 1)
        return merged.snapshot

    def list_files(self, snapshot: str) -> list[str]:
        return list_version_files(self.storage, self.organization, self.format, [self.location], snapshot)

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
    assert len(lake.list_files(later)) == 2


def test_files_that_were_merged_and_not_recorded_are_taken_back(lake: Lake) -> None:
    lake.append(1)
    lake.append(2)
    lake.merge_files("maintenance:1")
    time.sleep(0.05)  # the next execution begins after the commit
    later = lake.append(3)
    assert (lake.read(later), len(lake.list_files(later))) == ([1, 2, 3], 3)


def test_a_commit_that_was_merged_and_never_published_is_taken_back(lake: Lake) -> None:
    lake.append(1)
    published = lake.append(2)
    lake.target = replace(lake.target, snapshot=lake.append(3, publish=False))
    lake.merge_files("maintenance:1")
    lake.target = replace(lake.target, snapshot=published)
    time.sleep(0.05)
    assert lake.read(lake.append(4)) == [1, 2, 4]


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_spark_continues_a_table_whose_snapshots_have_expired(lake: Lake) -> None:
    first, second, third = (lake.append(id_) for id_ in (1, 2, 3))
    time.sleep(0.01)
    unused = expire_iceberg_snapshots(lake.storage, lake.organization, lake.location, [first, third], 0)
    assert unused, "the list of the second snapshot, whose data files the third has too"
    for key in unused:
        lake.storage.delete(key)
    assert [lake.read(each) for each in (first, third)] == [[1], [1, 2, 3]]
    with pytest.raises(Exception, match="Cannot find snapshot"):
        lake.read(second)
    assert lake.read(lake.append(4)) == [1, 2, 3, 4]
