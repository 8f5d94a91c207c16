from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.models import KEY, ModelServer, serve_model
from tests.support.runners import Runners
from tests.support.site import Site


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Generator[ModelServer]:
    """The model that pipelines use, whose rule each test sets."""
    with serve_model() as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


@pytest.fixture
def runners(spark: SparkSession, site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Runners:
    return Runners(spark, tmp_path, caplog, site)
