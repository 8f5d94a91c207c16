from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.runners import Runners
from tests.support.site import Site


@pytest.fixture
def runners(spark: SparkSession, site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Runners:
    return Runners(spark, tmp_path, caplog, site)
