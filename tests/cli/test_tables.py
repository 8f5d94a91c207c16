"""Pipelines that read several tables, run from files without a server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner, Result

from cli.main import main
from tests.support.service import CLONE

PIPELINE = """\
pipeline:
  - stage: sql_query
    args:
      - SELECT sku, price * rate AS euros FROM p JOIN r USING (currency) ORDER BY sku
      - {{tables: {{p: {prices}, r: {rates}}}}}
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a pipeline that joins a Parquet file with a folder of Delta."""
    prices = pa.table({"sku": ["b", "a"], "price": [2.0, 1.0], "currency": ["EUR", "USD"]})
    pq.write_table(prices, tmp_path / "prices.parquet")
    write_deltalake(str(tmp_path / "rates"), pa.table({"currency": ["USD", "EUR"], "rate": [0.9, 1.0]}))
    path = tmp_path / "joined.yaml"
    path.write_text(PIPELINE.format(prices=tmp_path / "prices.parquet", rates=tmp_path / "rates"))
    return path


def test_check_shows_which_table_is_which_dataset(file: Path) -> None:
    file.write_text(PIPELINE.format(prices="shop.prices", rates="fx.daily@4"))
    shown = call("check", file)
    assert shown.exit_code == 0
    assert "(p = shop.prices, r = fx.daily@4)" in shown.output


def test_try_shows_what_is_before_the_query(file: Path) -> None:
    shown = call("try", file)
    assert shown.exit_code == 0
    assert "There is nothing to show before it" in shown.output


@pytest.mark.parametrize("name", ["shop.prices", "prices", "spindle://shop/prices", "prices@3", "missing.parquet"])
def test_the_name_of_a_dataset_ends_a_run_before_spark(file: Path, name: str) -> None:
    file.write_text(PIPELINE.format(prices=name, rates=file.parent / "rates"))
    shown = " ".join(call("run", file).output.split())
    reason = "there is no file at" if name == "missing.parquet" else "is no file or folder of a known format"
    assert f"line 2: sql_query: {'there' if reason[0] == 't' else repr(name)}" in shown
    assert reason in shown


@pytest.mark.long
def test_a_run_joins_files_and_tables(file: Path) -> None:
    output = file.parent / "rows.jsonl"
    command = [sys.executable, "-m", "cli.main", "run", str(file), "-o", str(output)]
    done = subprocess.run(command, cwd=CLONE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert rows == [{"sku": "a", "euros": 0.9}, {"sku": "b", "euros": 2.0}]
