from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipelines.fetch.files import FileFolder
from pipelines.pipeline import Pipeline
from pipelines.planning.context import RunContext
from pipelines.planning.options import make_cache_options, make_fetch_options
from pipelines.spark.run import Run as EngineRun
from pipelines.stages.dataframes import to_records
from pipelines.transforms.transform import Transforms
from tests.support.pipelines import Rows, Run
from tests.support.site import Site, serve_site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    """Runs a pipeline's text and returns its rows in document order."""

    def run(
        text: str, context: RunContext | None = None, transforms: dict[str, str] | None = None, **parameters: str
    ) -> Rows:
        plan = Pipeline.from_yaml(text).plan(parameters, Transforms(transforms or {}))
        fetch = make_fetch_options(plan.options, ("127.0.0.0/8",))
        context = context or RunContext(files=FileFolder(str(tmp_path / "spindle_files"), "spindle_files"))
        context = replace(context, fetch=fetch, cache=make_cache_options(plan.options, context.cache))
        with EngineRun(plan, context) as run:
            found = to_records(run.collect_ordered(spark))
        spark.catalog.clearCache()
        return found

    return run
