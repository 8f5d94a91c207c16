"""Delta and Iceberg tables that the runners write: equal rows, types and partitions, also in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines.columns.types import parse_type
from pipelines.contract.context import RunContext
from pipelines.contract.report import WrittenFiles
from pipelines.contract.request import Files, Target, make_table_key
from pipelines.duckdb.file_types import FileTypes
from pipelines.duckdb.views import View
from pipelines.errors import RunError
from pipelines.language.formats import Mode
from pipelines.local import table_output
from pipelines.local.tables import name_void
from pipelines.spark.output import write_table
from pipelines.stages.sql_tables import open_table
from pipelines.tables import spark_tables
from pipelines.tables.commits import Write
from pipelines.tables.protocol import SparkOnly
from tests.support.libraries import needs_libraries

pytestmark = needs_libraries
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
ORDERS = (["local"], ["spark"], ["local", "spark"])
AT = datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)
NAN = float("nan")
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "id": ("bigint", [1, 2, 3]),
    "città": ("string", ["Köln", "", None]),
    "flag": ("boolean", [True, False, None]),
    "tiny": ("tinyint", [-128, 127, None]),
    "small": ("smallint", [-32768, 1, None]),
    "whole": ("int", [-(2**31), 2**31 - 1, None]),
    "ratio": ("float", [1.5, NAN, None]),
    "price": ("double", [-0.0, float("inf"), None]),
    "cost": ("decimal(10,2)", [Decimal("-1.25"), Decimal("99999999.99"), None]),
    "large": ("decimal(38,10)", [Decimal("1.0000000001"), Decimal(-1), None]),
    "day": ("date", [date(1, 1, 1), date(9999, 12, 31), None]),
    "at": ("timestamp", [AT, datetime(1900, 1, 1, tzinfo=UTC), None]),
    "wall": ("timestamp_ntz", [AT.replace(tzinfo=None), AT.replace(tzinfo=None, year=1582), None]),
    "bytes": ("binary", [b"\x00\xff", b"", None]),
    "tags": ("array<string>", [["a", None], [], None]),
    "sizes": ("map<string,int>", [[("a", 1), ("b", None)], [], None]),
    "place": ("struct<n:string,at:struct<x:double>>", [{"n": "é", "at": {"x": 1.0}}, {"n": None, "at": None}, None]),
    "notes": ("map<string,struct<n:int>>", [[("a", {"n": 1}), ("b", None)], [], None]),
    "parts": ("array<struct<n:int>>", [[{"n": 1}, None], [], None]),
}  # fmt: skip


def make_rows(**columns: tuple[str, list[Any]]) -> pa.Table:
    return pa.table({name: pa.array(values, parse_type(type_)) for name, (type_, values) in columns.items()})


class Writers:
    """Executions that write one table; the runners take turns, and each version is published."""

    def __init__(self, spark: SparkSession, folder: Path, format_: str, order: Sequence[str]) -> None:
        self.spark, self.format, self.runners = spark, format_, cycle(order)
        self.folder = folder / "-".join(order)
        self.folder.mkdir(parents=True)
        self.location = str(self.folder / format_)
        self.target = Target(location=self.location)
        self.written: list[WrittenFiles] = []

    def write(self, rows: pa.Table, mode: Mode = Mode.OVERWRITE, by: Sequence[str] = (), **more: Any) -> WrittenFiles:
        write = Write(mode, more.pop("keys", ()), by, f"execution-{len(self.written)}", 0, **more)
        if next(self.runners) == "local":
            written = table_output.write_table(rows, self.format, self.location, write, self.target)
        else:
            file = self.folder / f"{len(self.written)}.parquet"
            pq.write_table(name_void(rows), file)
            void = {each.name: F.lit(None) for each in rows.schema if pa.types.is_null(each.type)}
            frame = self.spark.read.parquet(str(file)).withColumns(void)
            written = write_table(frame, self.format, self.location, write, self.target)
        assert written.table is not None
        self.target = replace(
            self.target, exists=True, format=self.format, snapshot=written.table.snapshot, columns=written.columns
        )
        self.written.append(written)
        self.spark.catalog.clearCache()
        return written

    def show(self) -> list[Any]:
        """Return of each version what its report, Spark and SQL show: its schema and its rows."""
        table, shown = spark_tables.open_table(self.spark, self.format, self.location), list[Any]()
        for written in self.written:
            assert written.table is not None
            frame = table.read(written.table.snapshot)
            files = Files((self.location,), self.format, written.table.snapshot, written.columns, written.partition_by)
            view = open_table(RunContext(inputs={make_table_key("t"): files}), "t")
            assert isinstance(view, View)
            read = FileTypes().define(duckdb.default_connection(), view)
            sql = duckdb.sql(f"SELECT COLUMNS(*)::VARCHAR FROM ({read}) ORDER BY ALL").fetchall()
            types = duckdb.sql(f"DESCRIBE {read}").fetchall()
            rows = sorted(map(repr, frame.collect()))
            shown.append(
                {
                    "report": (written.columns, written.rows, written.table.rows, written.partition_by),
                    "schema": frame.schema.jsonValue(),
                    "rows": rows,
                    "sql": (types, sql),
                }
            )
        return shown


def assert_equal(spark: SparkSession, folder: Path, format_: str, *writes: Any, orders: Any = ORDERS) -> list[Any]:
    """Write the same by each order of runners, which must give the same versions; return them."""
    found: dict[str, list[Any]] = {}
    for order in orders:
        writers = Writers(spark, folder, format_, order)
        for rows, more in writes:
            writers.write(rows, **more)
        found[" ".join(order)] = writers.show()
    first = next(iter(found.values()))
    for order, shown in found.items():
        for number, (one, other) in enumerate(zip(first, shown, strict=True)):
            for name in one:
                assert one[name] == other[name], f"version {number} of local and {order}: {name}"
    return first


@FORMATS
def test_runners_write_equal_values_of_all_types(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    left_out = {"delta": ("large", "notes"), "iceberg": ("parts", "notes")}[format_]  # which stay with Spark
    rows = make_rows(**{name: each for name, each in COLUMNS.items() if name not in left_out})
    empty = rows.slice(0, 0)
    again = (rows, {"mode": Mode.APPEND})
    shown = assert_equal(spark, tmp_path, format_, (rows, {}), again, (empty, {"mode": Mode.APPEND}), (empty, {}))
    assert [len(each["rows"]) for each in shown] == [3, 6, 6, 0]
    values = rows.filter(pc.equal(rows.column("id"), 1)).drop_columns(["sizes", "bytes"])
    writers = Writers(spark, tmp_path / "bounds", format_, ["local"])
    writers.write(values)
    table = spark_tables.open_table(spark, format_, writers.location).read(writers.target.snapshot or "")
    first = table.first()
    assert first is not None
    for name in set(values.column_names) - {"place", "parts", "tags"}:  # whose bounds must not leave the file out
        equal = F.col(name) == F.lit(str(first[name])).cast(dict(table.dtypes)[name])
        assert table.where(equal).count() == 1, name


@pytest.mark.parametrize(("format_", "column"), [("delta", "large"), ("delta", "notes"), ("iceberg", "parts")])
def test_columns_that_a_library_would_store_otherwise_stay_with_spark(
    tmp_path: Path, format_: str, column: str
) -> None:
    table = table_output.open_table(format_, str(tmp_path / "table"))
    table.create(make_rows(id=("int", [1]), price=("double", [1.5])), ["price"])
    assert table.find_obstacle() is SparkOnly.SPLIT
    assert table.find_column_obstacle(make_rows(**{column: COLUMNS[column]}).schema) is not None
    assert table.find_column_obstacle(make_rows(id=COLUMNS["id"], cost=COLUMNS["cost"]).schema) is None


@FORMATS
def test_columns_and_fields_of_any_name_have_their_values(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    names = ("page-title", "2x", "x.y", "€", 'q"t', "select", "größe")
    names += ("unit price", "a,b", "Weight (kg)") if format_ == "iceberg" else ()
    rows = make_rows(
        **{name: ("int", [at]) for at, name in enumerate(names)},
        **{"@id": ("struct<@type:string,ab-c:struct<2.x:int>>", [{"@type": "a", "ab-c": {"2.x": 7}}])},
    )
    wider = make_rows(**{"@id": ("struct<@type:string,b-c:int>", [{"@type": "b", "b-c": 1}]), "x.y": ("int", [-1])})
    shown = assert_equal(spark, tmp_path, format_, (rows, {}), (wider, {"mode": Mode.APPEND}))
    types, found = shown[0]["sql"]
    assert [*map(str, range(len(names))), "{'@type': a, 'ab-c': {'2.x': 7}}"] == [*found[0]]
    assert 'STRUCT("@type" VARCHAR, "ab-c" STRUCT("2.x" INTEGER))' in [type_ for _, type_, *_ in types]
    assert {row[-1] for row in shown[1]["sql"][1]} == {
        "{'@type': a, 'ab-c': {'2.x': 7}, 'b-c': NULL}",
        "{'@type': b, 'ab-c': NULL, 'b-c': 1}",
    }
    if format_ == "delta":
        for order in ("local", "spark"):
            writers = Writers(spark, tmp_path / "unnamable", format_, [order])
            with pytest.raises(RunError, match=r"cannot have the column 'a\.unit price'"):
                writers.write(make_rows(a=("array<struct<unit price:int>>", [[]])))
        return
    nested = make_rows(
        parts=("array<struct<a b:int>>", [[{"a b": 1}, None], None]),
        sizes=("map<string,struct<@t:array<struct<x.y:int>>>>", [[("k", {"@t": [{"x.y": 2}]})], []]),
    )
    shown = assert_equal(spark, tmp_path / "nested", format_, (nested, {}), orders=(["spark"],))
    assert shown[0]["sql"][1] == [("[{'a b': 1}, NULL]", "{k={'@t': [{'x.y': 2}]}}"), (None, "{}")]


@FORMATS
def test_runners_evolve_columns_alike(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    first = make_rows(
        id=("int", [1]), ratio=("float", [0.1]), cost=("decimal(10,2)", [Decimal("1.25")]),
        place=("struct<x:int,Name:string>", [{"x": 1, "Name": "a"}]), parts=("array<struct<n:int>>", [[{"n": 1}]]),
    )  # fmt: skip
    wider = make_rows(
        ID=("bigint", [2**40, 2]), ratio=("double", [0.1, None]), cost=("decimal(12,2)", [Decimal("1e9"), None]),
        place=("struct<name:string,y:double,x:bigint>", [{"name": "b", "y": 1.5, "x": 2}, None]),
        parts=("array<struct<N:bigint,m:string>>", [[{"N": 2, "m": "c"}, None], None]),
        new=("string", ["n", None]), empty=("void", [None, None]),
    )  # fmt: skip
    narrow = make_rows(id=("tinyint", [3]), cost=("decimal(4,1)", [Decimal("2.5")]), ratio=("void", [None]))
    if format_ == "iceberg":
        first, wider = first.drop_columns(["parts"]), wider.drop_columns(["parts"])
    shown = assert_equal(spark, tmp_path, format_, *((rows, {"mode": Mode.APPEND}) for rows in (first, wider, narrow)))
    assert dict(shown[-1]["report"][0])["place"] == "struct<x:bigint,Name:string,y:double>"
    writers = Writers(spark, tmp_path / "unfit", format_, ["local"])
    writers.write(first)
    with pytest.raises(RunError, match="the column 'id' is int in the dataset and string in the new rows"):
        writers.write(make_rows(id=("string", ["x"])), Mode.APPEND)


@FORMATS
def test_runners_merge_alike(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    types = ("string", "double", "string", "int")
    names = ("k", "n", "page", "value")
    rows = [
        ("a", 1.0, "p", 1), ("a", 1.0, "p", 2), ("b", NAN, "p", 3), (None, 1.0, "q", 4), ("c", -0.0, "q", 5),
        ("d", 1.0, None, 6),
    ]  # fmt: skip
    first = make_rows(
        **{name: (type_, [*cells]) for name, type_, cells in zip(names, types, zip(*rows, strict=True), strict=True)}
    )
    merged = make_rows(
        N=("double", [1.0, NAN, 1.0, 0.0, 7.0]), k=("string", ["a", "b", None, "c", "e"]),
        page=("string", ["p", "p", "q", None, "r"]), more=("string", ["1", "2", "3", "4", "5"]),
    )  # fmt: skip
    last = make_rows(k=("string", ["z"]), n=("double", [1.0]), page=("string", ["p"]), value=("int", [9]))
    keys = {"mode": Mode.MERGE, "keys": ["k", "n"]}
    shown = assert_equal(spark, tmp_path, format_, (first, {}), (merged, keys), (last, {**keys, "within": "page"}))
    assert [len(each["rows"]) for each in shown] == [6, 7, 5]
    writers = Writers(spark, tmp_path / "twice", format_, ["local"])
    with pytest.raises(RunError, match="several rows have the same keys"):
        writers.write(pa.concat_tables([last, last]), Mode.MERGE, keys=["k"])


@FORMATS
def test_runners_split_tables_alike(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    texts = ["Köln + x.1", "a/b=c", 'it\'s "so" %41', "null", None, "\\d", "", "x"]
    rows = make_rows(
        id=("int", [*range(8)]), città=("string", texts), day=("date", [date(2026, 1, 1), None] * 4),
        n=("int", [-1, None] * 4), flag=("boolean", [True, None] * 4),
    )  # fmt: skip
    by = ["città", "day", "n", "flag"]
    orders = [["local"], ["spark"], ["local", *["spark"] * 9]]  # what Spark has spelled in a Delta table stays with it
    lacking, more = rows.select(["id"]), {"mode": Mode.APPEND, "by": by}
    merge = (lacking.slice(5), {"mode": Mode.MERGE, "keys": ["id"]})
    again = ((rows, {"by": ["CITTÀ"]}), (rows, {}))
    writes = ((rows, {"by": by}), merge, (rows, more), (lacking, more), *again)
    assert_equal(spark, tmp_path, format_, *writes, orders=orders if format_ == "delta" else ORDERS)
