"""A user's function in a whole execution of a shared instance: it runs, and reaches nothing of the service."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.driver import SECRET, driver, run_driver, spec
from tests.support.service import PATIENCE_SECONDS
from tests.support.webhook_receiver import Receiver

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


@pytest.mark.long
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
    log = run_driver(tmp_path, spec(tmp_path, None, localFolders=[str(tmp_path)], **transforms))
    rows = pq.read_table(tmp_path / "out").sort_by("name").to_pylist()
    assert [row["name"] for row in rows] == ["cup", "lamp"]
    for row in rows:
        assert row["found"] == f"{ {'LANG': 'C.UTF-8', 'TZ': 'UTC'} }" + " FileNotFoundError" * 5 + " OSError"
    for secret in ("canary", SECRET, os.environ["PATH"]):
        assert secret not in json.dumps(log) + str(rows)


@pytest.mark.long
def test_a_run_that_fails_saves_nothing_and_errors_of_the_jvm_hide_the_secrets_that_they_quote(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "canary of a shop")
    (tmp_path / "rows.csv").write_text("name\nlamp\n")
    text = f"""
pipeline:
  - {{stage: load_csv, args: ["{tmp_path}/rows.csv"]}}
  - {{stage: save_csv, args: ["{tmp_path}/local"]}}
  - {{stage: save_csv, args: [kept]}}
  - {{stage: "python_row_transform:tell", args: {{key: "${{SHOP_KEY}}", onError: fail}}}}
"""
    content = spec(
        tmp_path,
        receiver.url,
        localFolders=[str(tmp_path)],
        pipelineYaml=text,
        rowTransforms={"tell": "def tell(row, *, key) -> {'a': int}:\n  raise ValueError(key)\n"},
        parameters={"SHOP_KEY": "${SHOP_KEY}"},
        credentials={"SHOP_KEY": "c1"},
    )
    content["output"]["saves"] = str(tmp_path / "saves")
    with driver(tmp_path, content) as process:
        _, log = process.communicate(timeout=PATIENCE_SECONDS)
    lines = log.splitlines()
    of_the_jvm = [line for line in lines if not line.startswith("{")]
    assert process.returncode == 1
    assert any("line 2: ValueError: ********" in line for line in of_the_jvm)
    assert "canary" not in log
    assert '"event": "failed"' in lines[-1]
    failed = receiver.take()[-1].payload
    assert failed["status"] == "FAILED"
    assert "saves" not in failed["additionalMetrics"]
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", "data", "spec.json", "saves"}


@pytest.mark.long
def test_names_of_checks_hide_secrets_in_the_rows_that_they_set_aside(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "canary of a shop")
    (tmp_path / "rows.csv").write_text("name\nlamp\ncup\n")
    keep = "def keep(row) -> {'name': str}:\n  return {'name': row['name']}\n"
    content = spec(
        tmp_path,
        receiver.url,
        localFolders=[str(tmp_path)],
        pipelineYaml=f"""
pipeline:
  - {{stage: load_csv, args: [{{path: "{tmp_path}/rows.csv", header: true}}]}}
  - {{stage: "python_row_transform:keep"}}
checks:
  - {{check: accepted_values, column: name, values: [cup, "${{SHOP_KEY}}"], severity: quarantine, maxShare: 0.5}}
""",
        rowTransforms={"keep": keep},
        parameters={"SHOP_KEY": "${SHOP_KEY}"},
        credentials={"SHOP_KEY": "c1"},
    )
    content["output"]["saves"] = str(tmp_path / "saves")
    with driver(tmp_path, content) as process:
        _, log = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, log
    (row,) = pq.read_table(tmp_path / "saves/rejected").to_pylist()
    assert row["name"] == "lamp"
    assert "canary" not in json.dumps([row, receiver.take()[-1].payload])
    assert "canary" not in log
