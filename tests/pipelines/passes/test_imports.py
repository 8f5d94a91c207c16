"""What passes import."""

from __future__ import annotations

import subprocess
import sys


def test_passes_load_no_spark() -> None:
    script = (
        "import sys, pipelines.passes.worker, pipelines.local.runner, pipelines.reference\n"
        "print([name for name in ('pyspark', 'py4j', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
