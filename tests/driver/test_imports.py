"""What a driver and `spindle run` load before they know that they need Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["driver.execution", "driver.__main__", "cli.run"])
def test_spark_is_not_loaded_before_it_is_needed(module: str) -> None:
    code = f"import sys, {module}; print([each for each in sys.modules if each in ('pyspark', 'py4j')])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
