"""A user's function in a whole execution of a shared instance: it runs, and reaches nothing of the service."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.driver import SECRET, driver, finish, spec

PEEK = """
import os, socket
from typing import TypedDict

class Found(TypedDict):
    name: str
    found: str

def peek(row, *, path) -> Found:
    found = [str(dict(os.environ))]
    for each in (path, "/proc/self/environ", "/proc/1/environ", f"/proc/{os.getppid()}/environ", "secret-key"):
        try:
            found.append(open(each).read())
        except OSError as error:
            found.append(type(error).__name__)
    try:
        socket.create_connection(("127.0.0.1", 22), 1)
    except OSError as error:
        found.append(type(error).__name__)
    return {"name": row["name"], "found": " ".join(found)}
"""


def test_a_function_of_a_shared_instance_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    key = tmp_path / "data" / "secret-key"
    key.write_text("canary")
    (tmp_path / "rows.csv").write_text("name\nlamp\ncup\n")
    text = f"""
pipeline:
  - {{stage: load_csv, args: ["{tmp_path}/rows.csv"]}}
  - {{stage: "python_row_transform:peek", args: {{path: "{key}"}}}}
"""
    transforms = {"pipelineYaml": text, "rowTransforms": {"peek": PEEK}, "isolateTransforms": True}
    with driver(tmp_path, spec(tmp_path, None, localFolders=[str(tmp_path)], **transforms)) as process:
        log = finish(process, 0)
    rows = pq.read_table(tmp_path / "out").sort_by("name").to_pylist()
    assert [row["name"] for row in rows] == ["cup", "lamp"]
    for row in rows:
        assert row["found"] == f"{ {'LANG': 'C.UTF-8', 'TZ': 'UTC'} }" + " FileNotFoundError" * 5 + " OSError"
    for secret in ("canary", SECRET, os.environ["PATH"]):
        assert secret not in json.dumps(log) + str(rows)
