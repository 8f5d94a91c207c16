"""The files of `spindle run -o`: their formats, and rows after earlier ones."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.row_files import check_output_file, write_rows
from pipelines.errors import RunError
from pipelines.language.json_values import list_records

FIRST = pa.table({"sku": ["a", "b"], "price": [Decimal("1.50"), None], "tags": [["x", "ü"], []]})
SECOND = pa.table({"sku": ["c\nd"], "stock": [3]})


def read_sqlite(path: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM rows")]


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "parquet": lambda path: list_records(pq.read_table(path)),
    "csv": lambda path: [*csv.DictReader(StringIO(path.read_bytes().decode()))],
    "json": lambda path: json.loads(path.read_text()),
    "jsonl": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
    "sqlite": read_sqlite,
}


@pytest.mark.parametrize("suffix", READERS)
def test_rows_are_appended_and_columns_of_one_side_are_empty_in_the_other(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{suffix}"
    for rows in (FIRST, SECOND, SECOND):
        check_output_file(path, append=True)
        write_rows(rows, path, append=True)
    found = READERS[suffix](path)
    assert [row["sku"] for row in found] == ["a", "b", "c\nd", "c\nd"]
    assert [row.get("stock") or None for row in found] in ([None, None, 3, 3], [None, None, "3", "3"])
    assert Decimal(str(found[0]["price"])) == Decimal("1.50")
    assert found[0]["tags"] in (["x", "ü"], '["x", "ü"]')
    write_rows(FIRST, path)
    assert [row["sku"] for row in READERS[suffix](path)] == ["a", "b"]
    assert [*tmp_path.iterdir()] == [path], "nothing half-written stays"


def test_a_line_without_an_end_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"sku": "z"}')
    write_rows(SECOND, path, append=True)
    assert [row["sku"] for row in READERS["jsonl"](path)] == ["z", "c\nd"]


@pytest.mark.parametrize("suffix", ["parquet", "json", "sqlite"])
def test_a_file_that_is_none_of_its_format_is_found_before_the_run(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{suffix}"
    path.write_text("what lay here before, and is longer than any header of a file" * 20)
    with pytest.raises(RunError, match="cannot be written"):
        check_output_file(path, append=True)
    assert path.read_text().startswith("what lay here before")


def test_rows_of_other_types_keep_the_earlier_parquet(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_rows(FIRST, path)
    with pytest.raises(RunError, match="do not fit"):
        write_rows(pa.table({"sku": [[1]]}), path, append=True)
    assert pq.read_table(path).num_rows == 2


def test_decimals_are_numbers_in_json_where_doubles_hold_them(tmp_path: Path) -> None:
    money, large = (
        pa.array([Decimal("12.50"), None, Decimal("-0.01")]),
        pa.array([Decimal("12345678901234567.891")] * 3),
    )
    rows = pa.table({"money": money, "large": large, "count": pa.array([Decimal(7)] * 3)})
    write_rows(rows, tmp_path / "rows.jsonl")
    write_rows(rows, tmp_path / "rows.csv")
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == [
        {"money": money, "large": "12345678901234567.891", "count": 7} for money in (12.5, None, -0.01)
    ]
    assert (tmp_path / "rows.csv").read_text().splitlines()[1] == "12.50,12345678901234567.891,7"
