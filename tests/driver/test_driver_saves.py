"""What stages save, and how many rows table steps have, as a driver reports it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.driver import driver, finish, spec
from tests.support.webhook_receiver import Receiver

PIPELINE = """
pipeline:
  - {{stage: load_csv, args: ["{tmp}/in.csv"]}}
  - {{stage: filter, args: ["a <> '2'"]}}
  - {{stage: save_parquet, args: [kept, append]}}
  - {{stage: echo, args: [1, look]}}
  - {{stage: save_csv, args: ["spindle://shop/as csv"]}}
  - {{stage: save_csv, args: ["{tmp}/local"]}}
  - {{stage: limit, args: [1]}}
"""


@pytest.mark.long
def test_saves_and_rows_are_reported_with_completion(tmp_path: Path, receiver: Receiver) -> None:
    (tmp_path / "in.csv").write_text("a\n1\n2\n3\n")
    content = spec(tmp_path, receiver.url, pipelineYaml=PIPELINE.format(tmp=tmp_path), localFolders=[str(tmp_path)])
    content["output"]["saves"] = str(tmp_path / "saves")
    with driver(tmp_path, content) as process:
        log = finish(process, 0)
    metrics = receiver.take()[-1].payload["additionalMetrics"]
    written = {"columns": [{"name": "a", "type": "string"}], "rows": 2, "files": 1}
    assert [{name: value for name, value in each.items() if name != "bytes"} for each in metrics["saves"]] == [
        {**written, "path": "kept", "mode": "append", "format": "parquet", "folder": "1"},
        {**written, "path": "spindle://shop/as csv", "mode": "overwrite", "format": "csv", "folder": "2"},
    ]
    assert pq.read_table(tmp_path / "saves" / "1").column("a").to_pylist() == ["1", "3"]
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "saves" / "2").iterdir()} == {0o444}
    assert [file.suffix for file in (tmp_path / "local").iterdir()] == [".csv"]
    assert [stage["rows"] for stage in metrics["progress"]["stages"]] == [3, 2, 2, 2, 2, 2, 1, 1]
    (echoed,) = (line for line in log if line["event"] == "echo")
    assert (echoed["label"], echoed["number"], echoed["row"]) == ("look", 1, {"a": "1"})
