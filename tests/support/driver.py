"""The driver as a process: a spec in, log lines and Parquet files out."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.processes import running
from tests.support.service import CLONE, PATIENCE_SECONDS, wait_until

KEY = b"0123456789abcdef0123456789abcdef"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
PIPELINE = """
fetch: {url: "${BASE}/"}
pipeline:
  - {stage: wgetJoin, args: [a]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""


def spec(tmp_path: Path, url: str | None, **changes: Any) -> dict[str, Any]:
    return {
        "executionId": "e1",
        "jobId": "j1",
        "projectId": "p1",
        "organizationId": "o1",
        "jobName": "shop",
        "attempt": 2,
        "pipelineYaml": PIPELINE,
        "parameters": {},
        "limit": None,
        "output": {"path": str(tmp_path / "out")},
        "inputs": {},
        "localFolders": [],
        "webhook": {"url": url} if url else None,
        "heartbeatSeconds": 0.5,
        "fetch": {"allowNetworks": ["127.0.0.0/8"]},
        "spark": {"master": "local[2]", "conf": {}},
        "previewRows": 20,
        **changes,
    }


@contextmanager
def driver(tmp_path: Path, content: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """The driver, started in a folder where a user's own `pipelines` and `core` lie."""
    folder = tmp_path / "data"
    for name in ("pipelines", "core", "pyspark"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "__init__.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "spec.json").write_text(json.dumps(content))
    environment = {**os.environ, "SPINDLE_EXECUTION_TOKEN": SECRET, "PYTHONPATH": str(CLONE)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "driver", str(tmp_path / "spec.json")],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str], code: int) -> list[dict[str, Any]]:
    """The log's JSON lines, once the driver has ended with this code."""
    _, log = process.communicate(timeout=2 * PATIENCE_SECONDS)
    assert process.returncode == code, log
    return [json.loads(line) for line in log.splitlines() if line.startswith("{")]


def await_end(pids: list[int]) -> None:
    wait_until(lambda: not running(pids), PATIENCE_SECONDS)


def run_driver(tmp_path: Path, content: dict[str, Any], code: int = 0) -> list[dict[str, Any]]:
    """Run the driver to its end with this exit code; return the lines of its log."""
    with driver(tmp_path, content) as process:
        return finish(process, code)
