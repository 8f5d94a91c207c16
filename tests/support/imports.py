"""What a process of Python has imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

CLONE = Path(__file__).parents[2]


def list_imported(code: str, names: Collection[str]) -> list[str]:
    """Run the code in a new process, and return which of these modules it has imported then."""
    code = f"{code}\nimport sys\nprint(*(name for name in {[*names]} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=CLONE, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()
