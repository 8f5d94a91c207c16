from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.pipelines import Run, make_runner
from tests.support.site import Site, serve_site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    return make_runner(spark, tmp_path)
