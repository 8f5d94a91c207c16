from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import RunError
from tests.support.pipelines import Run


def test_json_lines_and_whole_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "lines.json").write_text('{"a": 1, "b": {"c": "x"}}\n{"a": 2}\n')
    (tmp_path / "array.json").write_text('[\n{"a": 3}\n]')
    assert run(f"pipeline: [{{stage: load_json, args: [{tmp_path}/lines.json]}}]") == [
        {"a": 1, "b": {"c": "x"}},
        {"a": 2, "b": None},
    ]
    args = f"[{{path: {tmp_path}/array.json, multiLine: 'true'}}]"
    assert run(f"pipeline: [{{stage: load_json, args: {args}}}]") == [{"a": 3}]


def test_json_without_objects_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("")
    with pytest.raises(RunError, match=r"the file '.*/empty\.json' contains no JSON objects"):
        run(f"pipeline: [{{stage: loadJson, args: [{tmp_path}/empty.json]}}]")


def test_parquet_folder(run: Run, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [3], "b": ["x"]}), tmp_path / "2.parquet")
    text = f"pipeline: [{{stage: load_parquet, args: {{path: {tmp_path}, merge_schema: true}}}}]"
    assert run(text) == [{"a": 1, "b": None}, {"a": 2, "b": None}, {"a": 3, "b": "x"}]
