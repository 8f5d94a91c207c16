from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import core

HEAVY = ("pyspark", "pyarrow", "pandas", "dagster", "fastapi")


@pytest.mark.long
def test_the_domain_carries_no_spark_dagster_or_server() -> None:
    script = (
        "import sys, core.lifecycle.submission.submit, core.lifecycle.executions.reports,"
        " core.lifecycle.tasks.repository, core.definitions.identity.api_keys;"
        'from pipelines.pipeline import check_yaml; check_yaml(\'pipeline: [{stage: wget, args: ["http://x/"]},'
        " {stage: extract, args: [{selector: a, method: text}]}]');"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    folder = Path(core.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
