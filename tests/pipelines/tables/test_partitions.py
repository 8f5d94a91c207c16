"""Partitions of Delta and Iceberg tables: each commit replaces one of them, and the log tells which are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.contract.report import WrittenFiles
from pipelines.contract.request import Files, Target, make_table_key
from pipelines.duckdb.views import View
from pipelines.errors import RunError
from pipelines.language.formats import Mode
from pipelines.local import table_output
from pipelines.spark.output import write_table
from pipelines.stages.load import read_table
from pipelines.stages.sql_tables import open_table
from pipelines.tables.commits import Write
from pipelines.tables.protocol import SparkOnly
from tests.support.libraries import needs_libraries

pytestmark = [pytest.mark.folder, needs_libraries]
FIRST, SECOND = "2026-01-01-05:00", "Köln + x.1"


class Table:
    """A table that executions of partitions write; the last version is the published one."""

    def __init__(self, spark: SparkSession, folder: Path, format_: str, runners: Sequence[str]) -> None:
        self.spark, self.format, self.runners = spark, format_, cycle(runners)
        self.location = str(folder / "tables" / format_)
        self.target = Target(location=self.location)
        self.runs = 0

    def write(self, day: str, *ids: Any, type_: str = "bigint", publish: bool = True, **more: Any) -> WrittenFiles:
        self.runs += 1
        author, partition = f"execution-{self.runs}", {"day": day}
        rows = self.spark.createDataFrame([(each, day) for each in ids], f"id {type_}, day string")
        for name, value in more.items():
            rows = rows.selectExpr("id", f"{value} AS {name}", "day")
        write = Write(Mode.OVERWRITE, (), ("day",), author, 0, partition=partition)
        how = (self.format, self.location, write, self.target)
        try:
            written = table_output.write_table(rows.toArrow(), *how) if next(self.runners) == "local" else None
        except RunError as error:
            if SparkOnly.PATHS not in str(error):  # where a run would have begun with Spark
                raise
            written = None
        written = written or write_table(rows, *how)
        if publish:
            self.publish(written)
        return written

    def publish(self, written: WrittenFiles) -> None:
        assert written.table is not None
        self.target = replace(
            self.target, exists=True, format=self.format, snapshot=written.table.snapshot, fits_types=True
        )

    def read(self, written: WrittenFiles, partition: Mapping[str, str] = {}) -> list[tuple[Any, ...]]:
        """Read a version, or one partition of it, by DuckDB and by Spark, which have the same rows."""
        assert written.table is not None
        files = Files(
            (self.location,), self.format, written.table.snapshot, written.columns, written.partition_by,
            tuple(partition.items()),
        )  # fmt: skip
        context = RunContext(inputs={make_table_key("days"): files})
        view = open_table(context, "days")
        assert isinstance(view, View)
        read = view.define([view.files] if view.files else [])
        rows = duckdb.sql(f"SELECT id, day FROM ({read}) ORDER BY ALL").fetchall()
        self.spark.catalog.clearCache()
        spark = read_table(self.spark, context, "days").select("id", "day").orderBy("id", "day")
        assert [tuple(row) for row in spark.collect()] == rows
        return rows


@pytest.fixture(params=["local", "spark", "spark, local", "local, spark"])
def runners(request: pytest.FixtureRequest) -> Sequence[str]:
    return request.param.split(", ")


@pytest.fixture(params=["delta", "iceberg"])
def table(spark: SparkSession, tmp_path: Path, runners: Sequence[str], request: pytest.FixtureRequest) -> Table:
    return Table(spark, tmp_path, request.param, runners)


def get_parts(written: WrittenFiles) -> dict[str, int]:
    assert written.table is not None
    assert all(part.bytes > 0 for part in written.table.parts)
    return {part.values[0]: part.rows for part in written.table.parts}


def test_a_run_replaces_its_partition_alone(table: Table) -> None:
    first = table.write(FIRST, 1, 2)
    second = table.write(SECOND, 3)
    again = table.write(FIRST, 4, type_="int", price="1.5D")
    assert table.read(again) == [(3, SECOND), (4, FIRST)]
    assert table.read(second) == [(1, FIRST), (2, FIRST), (3, SECOND)]
    assert table.read(again, {"day": FIRST}) == [(4, FIRST)]
    assert table.read(second, {"day": SECOND}) == [(3, SECOND)]
    assert table.read(second, {"day": "2026"}) == []
    assert [get_parts(each) for each in (first, second, again)] == [
        {FIRST: 2}, {FIRST: 2, SECOND: 1}, {FIRST: 1, SECOND: 1},
    ]  # fmt: skip
    assert [(each.rows, each.table and each.table.rows) for each in (first, second, again)] == [(2, 2), (1, 3), (1, 2)]
    assert dict(again.columns) == {"id": "bigint", "day": "string", "price": "double"}
    empty = table.write(FIRST)
    assert (get_parts(empty), empty.rows, table.read(empty)) == ({SECOND: 1}, 0, [(3, SECOND)])


@pytest.mark.long
def test_partitions_of_another_kind_begin_the_table_anew(table: Table) -> None:
    table.write(FIRST, 1)
    table.target = replace(table.target, fits_types=False)
    anew = table.write(SECOND, "a", type_="string")
    assert (get_parts(anew), table.read(anew)) == ({SECOND: 1}, [("a", SECOND)])
    with pytest.raises(RunError, match="'id' is string in the dataset and date in the new rows"):
        table.write(FIRST, None, type_="date")


@pytest.mark.long
def test_an_abandoned_partition_is_taken_back(table: Table) -> None:
    table.write(FIRST, 1)
    table.write(SECOND, 2, publish=False)
    table.target = replace(table.target, listed_at=2**50)
    written = table.write("2026", 3)
    assert get_parts(written) == {FIRST: 1, "2026": 1}


@pytest.mark.long
def test_first_partitions_at_once_are_all_there(table: Table) -> None:
    written: list[WrittenFiles] = []
    table.target = replace(table.target, writers=tuple(f"execution-{number}" for number in range(1, 5)))

    def write(day: int) -> None:
        written.append(table.write(f"2026-01-0{day}", day, publish=False))

    threads = [Thread(target=write, args=(day,)) for day in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, map(get_parts, written))) == [1, 2, 3]
    last = table.write("2026-01-01", 4)
    assert [row[0] for row in table.read(last)] == [2, 3, 4]
