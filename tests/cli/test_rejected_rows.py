"""Rows that checks set aside in `spindle run`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.service import CLONE

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


def test_a_trial_shows_which_rows_would_be_set_aside(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("name,kind\nLamp,a\n,b\n")
    (tmp_path / "keep.py").write_text(KEEP)
    (tmp_path / "run.yaml").write_text(PIPELINE)
    command = [CLONE / ".venv/bin/spindle", "try", "run.yaml", "--transforms", "keep.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"name": "Lamp"},
        {"name": None, "rejected_check": "not_null name", "rejected_reason": "name is null"},
    ]
    assert "checks would set aside 1 row of them" in done.stderr
