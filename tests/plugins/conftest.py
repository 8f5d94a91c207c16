from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.pipelines import Run, make_runner


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    return make_runner(spark, tmp_path)
