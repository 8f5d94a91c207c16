"""Install other tools into virtual environments and run them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.service import CLONE, SCRATCH, Json


def install_contender(name: str, *packages: str) -> Path:
    """Return the Python of a virtual environment in `.bench` with `packages`."""
    folder = SCRATCH / name
    if not (folder / "bin/python").exists():
        uv = _find_uv()
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
        subprocess.run([uv, "pip", "install", "-q", "--python", folder, *packages], check=True)
    return folder / "bin/python"


def _find_uv() -> str | Path:
    """Return uv from PATH, or the one that bin/setup has installed."""
    return shutil.which("uv") or CLONE / ".venv/bin/uv"


def read_output(command: Sequence[str | Path]) -> Json:
    """Return the last line of the command's output, parsed as JSON."""
    done = subprocess.run(command, cwd=CLONE, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
