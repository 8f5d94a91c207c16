from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.language.engines import EngineName
from pipelines.local.runner import LocalRunner
from pipelines.spark.runner import SparkRunner
from tests.support.pipelines import Make, Run, make_runner
from tests.support.request_site import RequestSite, serve_requests
from tests.support.site import Site, serve_site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.fixture(scope="module")
def other() -> Iterator[Site]:
    with serve_site() as other:
        yield other


@pytest.fixture
def requests() -> Iterator[RequestSite]:
    with serve_requests() as site:
        yield site


@pytest.fixture
def other_requests() -> Iterator[RequestSite]:
    with serve_requests() as site:
        yield site


@pytest.fixture(params=["auto", pytest.param("spark", marks=pytest.mark.long)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a pipeline on the engine that the product chooses, and in the long suite also on Spark."""
    return make_runner(lambda: request.getfixturevalue("spark"), tmp_path, EngineName(request.param))


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.long)])
def make(request: pytest.FixtureRequest) -> Make:
    """Make the runner of a run: the local one, and in the long suite also that on Spark."""
    if request.param == "local":
        return LocalRunner
    spark = request.getfixturevalue("spark")
    return lambda run: SparkRunner(run, spark)
