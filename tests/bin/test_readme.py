"""The first pipeline, line by line, as README.md and docs/rest.md have it; only ports and folders are a test's own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from core.integrations.declarations.models import Declaration
from tests.support.service import PATIENCE_SECONDS, READY_SECONDS, free_port, wait_until

CLONE = Path(__file__).parents[2]
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_blocks(page: str, port: str, shop_port: str) -> list[str]:
    text = (CLONE / page).read_text(encoding="utf-8")
    for there, here in {
        "8080": port,
        "8900": shop_port,
        "8910": shop_port,
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
        wait_until(lambda: until in log.read_text() or process.poll() is not None, READY_SECONDS)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)


def paste(block: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-ec", block],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.gate
@pytest.mark.long
def test_the_first_pipeline_with_commands_and_over_rest(tmp_path: Path) -> None:
    port, shop_port = str(free_port()), str(free_port())
    up, shop, commands, *_ = read_blocks("README.md", port, shop_port)
    ports = {"SPINDLE_PORT": port, "SPINDLE_UI_PORT": str(free_port())}
    server = {"SPINDLE_URL": f"http://127.0.0.1:{port}", "COLUMNS": "120"}
    with ExitStack() as stack:
        stack.enter_context(terminal(f"env {up}", tmp_path, "Spindle is ready", **ports))
        stack.enter_context(terminal(shop, tmp_path, "shop at"))
        first, second = paste(commands, tmp_path, **server), paste(commands, tmp_path, **server)
        rest = paste("".join(read_blocks("docs/rest.md", port, shop_port)), tmp_path)
    assert first.returncode == 0, first.stderr
    assert "Created 4, changed 0, deleted 0" in first.stdout
    assert "Completed after" in first.stdout
    assert "Garden of Moss" in first.stdout
    assert second.returncode == 0, second.stderr
    assert "Created 0, changed 0, deleted 0" in second.stdout
    assert rest.returncode == 0, rest.stderr
    found = [each.start() for each in re.finditer(r'\{"results"', rest.stdout)]
    rows, trial = (json.JSONDecoder().raw_decode(rest.stdout, start)[0]["results"] for start in found)
    assert len(trial) == 3
    assert rows[0] == {"title": "Garden of Moss", "price": 3200.0, "currency": "JPY"}
    assert len(rows) == 5


def test_the_first_pipeline_without_a_server_ends_with_errors(tmp_path: Path) -> None:
    tmp_path.joinpath("first.yaml").write_text("pipeline: []")
    tmp_path.joinpath(".spindle").mkdir()
    tmp_path.joinpath(".spindle/admin-key").write_text("key")
    blocks = read_blocks("docs/rest.md", str(free_port()), "")
    done = paste("".join(blocks), tmp_path)
    assert done.returncode != 0
    assert "curl: " in done.stderr


def test_the_names_that_the_readme_imports_are_public() -> None:
    code = re.findall(r"^```python\n(.*?)^```$", (CLONE / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    names = re.findall(r"^from spindle import (\w+)$", "".join(code), re.MULTILINE)
    assert "Pipeline" in names
    assert all(hasattr(import_module("spindle"), name) for name in names)


def test_declarations_on_pages_are_valid() -> None:
    pages = [CLONE / "README.md", *(CLONE / "docs").glob("*.md")]
    blocks = (block for page in pages for block in YAML.findall(page.read_text(encoding="utf-8")))
    declared = [Declaration.model_validate(yaml.safe_load(each)) for each in blocks if each.startswith("projects:")]
    assert {bool(each.webhooks) for found in declared for each in found.projects or ()} == {True, False}
