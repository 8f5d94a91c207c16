"""A download, uploaded again, has the same types and values, in each format."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.data.files.export import describe, export
from core.data.files.messages import ConversionRequest, DescribeRequest, ExportRequest, Format
from core.data.files.types import describe_columns, normalize_schema
from core.data.files.upload_conversion import convert_file

DECIMALS = st.integers(-(10**28) + 1, 10**28 - 1).map(lambda digits: Decimal(digits).scaleb(-10))
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["", "007", "1", "1.10", "12E3", "true", "null", "NaN", "2026-01-02", "10-11-12", "24:00", "epoch", '"', "a\r\nb"]
)
LONG_DECIMALS = st.integers(10**20, 10**26).map(lambda number: Decimal(number * 10 + 1).scaleb(-10))
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001 - the zone is that of the column
SIMPLE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    *(
        (type_, st.integers(-(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1))
        for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    ),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal128(38, 10), DECIMALS),
    (pa.decimal128(10, 2), st.integers(-(10**10) + 1, 10**10 - 1).map(lambda digits: Decimal(digits).scaleb(-2))),
    (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (pa.string(), TEXTS),
    (pa.binary(), st.binary(max_size=8)),
    (pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    (pa.timestamp("us"), MOMENTS),
    (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
]
Column = tuple[pa.DataType, st.SearchStrategy[Any]]


def nest(inner: st.SearchStrategy[Column]) -> st.SearchStrategy[Column]:
    def build_list(item: Column) -> Column:
        return pa.list_(item[0]), st.lists(st.none() | item[1], max_size=3)

    def build_map(item: Column) -> Column:
        return pa.map_(pa.string(), item[0]), st.dictionaries(TEXTS, st.none() | item[1], max_size=3).map(
            lambda pairs: [*pairs.items()]
        )

    def build_row(parts: list[Column]) -> Column:
        names = [f"f{number}" for number in range(len(parts))]
        fields = [*zip(names, (type_ for type_, _ in parts), strict=True)]
        values = {name: st.none() | each for name, (_, each) in zip(names, parts, strict=True)}
        return pa.struct(fields), st.fixed_dictionaries(values)

    return inner.map(build_list) | inner.map(build_map) | st.lists(inner, min_size=1, max_size=3).map(build_row)


COLUMNS = st.recursive(st.sampled_from(SIMPLE), nest, max_leaves=3)


def send_back(table: pa.Table, format_: Format, keep_types: bool) -> pa.Table:
    """Download rows and upload them again, as the next version of their dataset if the types are to be kept."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        pq.write_table(table, folder / "stored.parquet")
        export(ExportRequest(scratch, [f"{folder}/stored.parquet"], "parquet", format_), f"{folder}/sent")
        columns = [(each["name"], each["type"]) for each in describe_columns(table.schema)] if keep_types else []
        given_format = format_ if table.num_rows else None
        header = True if format_ == "csv" else None
        convert_file(ConversionRequest(f"{folder}/sent", scratch, 2**30, given_format, header=header, columns=columns))
        return pq.read_table(folder / "rows.parquet")


def show(table: pa.Table) -> list[str]:
    return [repr(row) for row in table.to_pylist()]


@pytest.mark.parametrize("format_", ["csv", "jsonl", "parquet"])
@settings(
    max_examples=20,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_the_next_version_from_a_download_is_the_same(format_: Format, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(COLUMNS, min_size=1, max_size=3))
    rows = data.draw(st.integers(1, 4))
    arrays = [
        pa.array(data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), type_)
        for type_, values in chosen
    ]
    table = pa.table(arrays, names=[f"c{number}" for number in range(len(chosen))])
    table = table.cast(normalize_schema(table.schema))
    again = send_back(table, format_, keep_types=True)
    assert describe_columns(again.schema) == describe_columns(table.schema)
    assert show(again) == show(table)


TYPICAL: dict[str, tuple[pa.DataType, Callable[[], st.SearchStrategy[Any]]]] = {
    "bigint": (pa.int64(), lambda: st.integers(-(10**18) + 1, 10**18 - 1)),
    "double": (pa.float64(), lambda: st.floats(allow_subnormal=False)),
    "boolean": (pa.bool_(), st.booleans),
    "decimal(38,10)": (pa.decimal128(38, 10), lambda: LONG_DECIMALS),
    "date": (pa.date32(), lambda: st.dates(date(1, 1, 1))),
    "timestamp_ntz": (pa.timestamp("us"), lambda: MOMENTS),
    "timestamp": (pa.timestamp("us", "UTC"), lambda: MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    "string": (pa.string(), lambda: st.sampled_from(["007", "12E3", "10-11-12", "24:00", "epoch", "infinity", " 1"])),
}  # fmt: skip


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
@pytest.mark.parametrize("name", TYPICAL)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_a_new_dataset_from_a_download_has_the_types_that_its_values_show(
    format_: Format, name: str, data: st.DataObject
) -> None:
    type_, values = TYPICAL[name]
    filled = data.draw(st.lists(values(), min_size=1, max_size=4))
    table = pa.table({"c": pa.array([*filled, None], type_), "other": pa.array([*("x" for _ in filled), "y"])})
    again = send_back(table, format_, keep_types=False)
    assert describe_columns(again.schema)[0]["type"] == name
    assert show(again) == show(table)


def test_minus_zero_and_no_number_survive() -> None:
    table = pa.table({"c": [-0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1, 1e22]})
    for format_ in ("csv", "jsonl"):
        assert show(send_back(table, format_, keep_types=False)) == show(table)


ROWS = [{"t": "10-11-12", "u": "6F9619FF", "d": "2026-01-02", "b": "AAE=", "n": {"e": "epoch"}}]


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
def test_a_dataset_of_json_is_sent_as_it_is(tmp_path: Path, format_: str) -> None:
    (tmp_path / "part.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    described = describe(DescribeRequest(str(tmp_path), [f"{tmp_path}/part.json"], "json"))
    assert [column["type"] for column in described.columns] == [
        "string",
        "string",
        "date",
        "string",
        "struct<e:string>",
    ]
    types = ("VARCHAR", "VARCHAR", "DATE", "BLOB", "STRUCT(e VARCHAR)")
    files = [f"{tmp_path}/part.json"]
    columns = [*zip(ROWS[0], types, strict=True)]
    export(ExportRequest(str(tmp_path), files, "json", format_, columns), f"{tmp_path}/sent")
    sent = (tmp_path / "sent").read_text()
    if format_ == "jsonl":
        assert [json.loads(line) for line in sent.splitlines()] == ROWS
    else:
        assert sent == 't,u,d,b,n\n10-11-12,6F9619FF,2026-01-02,AAE=,"{""e"":""epoch""}"\n'
