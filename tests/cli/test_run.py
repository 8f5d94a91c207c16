"""`spindle run`: its files, its output, rejected rows, tables from files, and the contact of the operator."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner, Result

from cli.fetching import read_crawl_options
from cli.main import main
from cli.output import OutputFile, plan_output
from cli.row_files import check_output_file, write_rows
from cli.trial import TrialOptions
from pipelines.errors import RunError
from pipelines.fetch.fetcher import USER_AGENT
from pipelines.language.json_values import list_records
from pipelines.pipeline import Pipeline
from pipelines.planning.model import Output
from tests.support.service import CLONE

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


STAGES = "fetch: {url: 'http://a.test/'}\npipeline: [{stage: extract, args: [{selector: h1, as: name}]}]\n"


@pytest.mark.parametrize(
    ("output", "file", "warnings"),
    [
        ("{}", None, []),
        (
            "{format: csv, mode: append}",
            None,
            ["'output' has no path, so its format, mode is not used here; -o FILE writes the rows to a file"],
        ),
        ("{format: csv}", OutputFile(Path("rows.csv")), []),
        (
            "{mode: append}",
            OutputFile(Path("rows.csv")),
            ["'output' has no path, so its mode is not used here; --append keeps its earlier rows"],
        ),
        ("{mode: append}", OutputFile(Path("rows.csv"), append=True), []),
        (
            "{path: 'spindle://shop/prices'}",
            OutputFile(Path("rows.csv")),
            ["'output' is not written: spindle://shop/prices is a dataset of a service; the rows are in rows.csv"],
        ),
    ],
)
def test_an_output_without_a_place_is_a_warning(output: str, file: OutputFile | None, warnings: list[str]) -> None:
    plan = Pipeline.from_yaml(f"{STAGES}output: {output}\n").plan()
    planned, found = plan_output(plan, file)
    assert found == warnings
    assert planned.output == Output()


def test_an_output_with_a_local_path_is_kept() -> None:
    text = f"{STAGES}output: {{path: rows.csv, format: csv}}\n"
    planned, found = plan_output(Pipeline.from_yaml(text).plan(), OutputFile(Path("rows.csv")))
    assert (planned.output.path, found) == ("rows.csv", [])


PIPELINE = """\
pipeline:
  - {stage: load_csv, args: [{path: rows.csv, header: true}]}
  - {stage: "python_row_transform:keep"}
checks:
  - {check: not_null, columns: [name], severity: quarantine, maxShare: 0.5}
  - {check: row_count, maxDrop: 0.2}
"""
KEEP = """\
from typing import TypedDict


class Kept(TypedDict):
    name: str | None


def keep(row) -> Kept:
    return {"name": row["name"]}
"""


@pytest.mark.long
@pytest.mark.parametrize("engine", ["auto", pytest.param("spark", marks=pytest.mark.long)])
def test_the_file_beside_that_of_o_has_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("name,kind\nLamp,a\n,b\n")
    Path("keep.py").write_text(KEEP)
    Path("run.yaml").write_text(f"spindle: {{engine: {engine}}}\n{PIPELINE}")
    command = [sys.executable, "-P", "-m", "cli.main", "run", "run.yaml", "-o", "out.csv", "--transforms", "keep.py"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(CLONE)}, capture_output=True, text=True)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert Path("out.csv").read_text().splitlines()[1:] == ["Lamp"]
    header, row = Path("out_rejected.csv").read_text().splitlines()
    assert header == "name,rejected_check,rejected_reason"
    assert row.startswith(",not_null name,")
    assert "out_rejected.csv" in output
    assert "1 of 2 rows" in output
    assert "check row_count: it was not compared with earlier executions" in output


def test_a_trial_shows_which_rows_would_be_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("name,kind\nLamp,a\n,b\n")
    Path("keep.py").write_text(KEEP)
    Path("run.yaml").write_text(PIPELINE)
    done = call("try", "run.yaml", "--transforms", "keep.py")
    assert done.exit_code == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"name": "Lamp"},
        {"name": None, "rejected_check": "not_null name", "rejected_reason": "name is null"},
    ]
    assert "checks would set aside 1 row of them" in done.stderr


JOIN = """\
pipeline:
  - stage: sql_query
    args:
      - SELECT sku, price * rate AS euros FROM p JOIN r USING (currency) ORDER BY sku
      - {{tables: {{p: {prices}, r: {rates}}}}}
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def joined(tmp_path: Path) -> Path:
    """Return a pipeline that joins a Parquet file with a folder of Delta."""
    prices = pa.table({"sku": ["b", "a"], "price": [2.0, 1.0], "currency": ["EUR", "USD"]})
    pq.write_table(prices, tmp_path / "prices.parquet")
    write_deltalake(str(tmp_path / "rates"), pa.table({"currency": ["USD", "EUR"], "rate": [0.9, 1.0]}))
    path = tmp_path / "joined.yaml"
    path.write_text(JOIN.format(prices=tmp_path / "prices.parquet", rates=tmp_path / "rates"))
    return path


def test_check_shows_which_table_is_which_dataset(joined: Path) -> None:
    joined.write_text(JOIN.format(prices="shop.prices", rates="fx.daily@4"))
    shown = call("check", joined)
    assert shown.exit_code == 0
    assert "(p = shop.prices, r = fx.daily@4)" in shown.output


def test_try_shows_what_is_before_the_query(joined: Path) -> None:
    shown = call("try", joined)
    assert shown.exit_code == 0
    assert "There is nothing to show before it" in shown.output


@pytest.mark.parametrize("name", ["shop.prices", "prices", "spindle://shop/prices", "prices@3", "missing.parquet"])
def test_the_name_of_a_dataset_ends_a_run_before_spark(joined: Path, name: str) -> None:
    joined.write_text(JOIN.format(prices=name, rates=joined.parent / "rates"))
    shown = " ".join(call("run", joined).output.split())
    reason = "there is no file at" if name == "missing.parquet" else "is no file or folder of a known format"
    assert f"line 2: sql_query: {'there' if reason[0] == 't' else repr(name)}" in shown
    assert reason in shown


@pytest.mark.long
def test_a_run_joins_files_and_tables(joined: Path) -> None:
    output = joined.parent / "rows.jsonl"
    command = [sys.executable, "-m", "cli.main", "run", str(joined), "-o", str(output)]
    done = subprocess.run(command, cwd=CLONE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert rows == [{"sku": "a", "euros": 0.9}, {"sku": "b", "euros": 2.0}]


TEXT = "fetch: {url: 'http://shop.test/'}\npipeline: [{stage: extract, args: [{selector: h1, as: title}]}]\n"


def test_the_contact_is_sent_unless_the_pipeline_has_a_user_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPINDLE_FETCH_CONTACT", raising=False)
    assert read_crawl_options().user_agent == USER_AGENT
    monkeypatch.setenv("SPINDLE_FETCH_CONTACT", "ops@example.com")
    options = TrialOptions({}, True, 5, 5, None)
    trial = options.create_trial(TEXT)
    assert trial._options.user_agent == f"{USER_AGENT} (+ops@example.com)"  # pyright: ignore[reportPrivateUsage]
    own = options.create_trial(f"{TEXT}spindle: {{userAgent: mine}}\n")
    assert own._options.user_agent == "mine"  # pyright: ignore[reportPrivateUsage]


def test_a_contact_that_cannot_be_sent_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINDLE_FETCH_CONTACT", "ops\r\nX: y")
    with pytest.raises(RunError, match="SPINDLE_FETCH_CONTACT"):
        read_crawl_options()
