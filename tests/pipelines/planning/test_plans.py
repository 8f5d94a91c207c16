"""Plans as people read them: plans/*.yaml beside the printed plan. `UPDATE_PLANS=1 pytest` writes the latter anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Kind

FILES = sorted(Path(__file__).with_name("plans").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_plan_is_as_written(file: Path) -> None:
    plan = Pipeline.from_yaml(file.read_text()).plan_open()
    golden = file.with_suffix(".txt")
    if os.environ.get("UPDATE_PLANS"):
        golden.write_text(f"{plan}\n")
    assert f"{plan}\n" == golden.read_text()
    keys = [step.key for step in plan.steps]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch("[A-Za-z0-9_]+", key) for key in keys)
    assert plan.steps[-1].kind is Kind.OUTPUT


@pytest.mark.parametrize(
    ("more", "loads"),
    [
        ("", False),
        (", {stage: dedup, args: [title]}, {stage: save_csv, args: [out]}", False),
        (", {stage: unionByName, args: [{format: csv, path: in.csv}]}", True),
        (", {stage: store, args: [a]}, {stage: load_csv, args: [in.csv]}, {stage: union_with, args: [a]}", True),
    ],
)
def test_a_plan_shows_whether_rows_come_from_files(more: str, loads: bool) -> None:
    extract = "{stage: extract, args: [{selector: h1, method: text, as: title}]}"
    plan = Pipeline.from_yaml(f"fetch: {{url: https://a.example/}}\npipeline: [{extract}{more}]").plan_open()
    assert plan.reads_files is loads
