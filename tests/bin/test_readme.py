"""The README's first pipeline, line by line; only ports and folders are a test's own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from core.infra.settings import Settings
from tests.support.service import PATIENCE_SECONDS, READY_SECONDS, free_port

CLONE = Path(__file__).parents[2]
DECLARATION = re.compile(r"^```yaml\n(# spindle.yaml\n.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(port: str) -> list[str]:
    text = (CLONE / "README.md").read_text(encoding="utf-8")
    for there, here in {
        "8080": port,
        "8900": str(free_port()),
        "bin/spindle": str(CLONE / "bin/spindle"),
        ".venv/bin/python": str(CLONE / ".venv/bin/python"),
    }.items():
        text = text.replace(there, here)
    return BLOCK.findall(text)


@contextmanager
def terminal(block: str, folder: Path, until: str, **environment: str) -> Generator[None]:
    """A block that stays in the foreground, ready once it has printed `until`."""
    log = folder / f"{until}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {block}"], cwd=folder, env={**os.environ, **environment}, stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + READY_SECONDS
        while until not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_first_pipeline_by_hand_and_from_a_file(tmp_path: Path, times: int) -> None:
    port = str(free_port())
    up, shop, by_hand, from_a_file, *_ = blocks(port)
    ports = {"SPINDLE_PORT": port, "SPINDLE_UI_PORT": str(free_port())}
    with ExitStack() as stack:
        stack.enter_context(terminal(f"env {up}", tmp_path, "Spindle is ready", **ports))
        stack.enter_context(terminal(shop, tmp_path, "shop at"))
        pasted = [
            subprocess.run(
                ["bash", "-c", by_hand], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True
            ).stdout
            for _ in range(times)
        ]
        tmp_path.joinpath("spindle.yaml").write_text(DECLARATION.findall((CLONE / "README.md").read_text())[0])
        applied = subprocess.run(
            ["bash", "-ec", from_a_file],
            cwd=tmp_path,
            env={**os.environ, "SPINDLE_URL": f"http://127.0.0.1:{port}"},
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert {*pasted} == {pasted[0]}, "pasted twice, it gives the same"
    rows = json.loads(pasted[0])["results"]
    assert rows[0] == {"title": "Garden of Moss", "price": 3200.0, "currency": "JPY"}
    assert len(rows) == 5
    assert applied.returncode == 0, applied.stderr
    assert "Created 0, changed 0, deleted 0" in applied.stdout
    assert "Completed after" in applied.stdout


def test_the_first_pipeline_without_a_server_ends_with_errors(tmp_path: Path) -> None:
    by_hand = blocks(str(free_port()))[2]
    done = subprocess.run(["bash", "-c", by_hand], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "curl: " in done.stderr


def test_the_names_that_the_readme_imports_are_public() -> None:
    code = re.findall(r"^```python\n(.*?)^```$", (CLONE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    names = re.findall(r"^from spindle import (\w+)$", "".join(code), re.MULTILINE)
    assert "Pipeline" in names
    assert all(hasattr(import_module("spindle"), name) for name in names)


def test_the_settings_are_all_there() -> None:
    text = (CLONE / "README.md").read_text(encoding="utf-8")
    assert [name for name in Settings.model_fields if f"`SPINDLE_{name.upper()}`" not in text] == []
