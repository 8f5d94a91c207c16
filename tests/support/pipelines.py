"""Pipelines run on the shared Spark session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.contract.context import RunContext
from pipelines.engine.options import make_cache_options, make_fetch_options
from pipelines.engine.run import Run as PlanRun
from pipelines.errors import NeedsSpark, PipelineError, Problem
from pipelines.fetch.files import FileFolder
from pipelines.language.engines import EngineName
from pipelines.language.json_values import list_records
from pipelines.local.engine_choice import choose_engine
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline, check_yaml
from pipelines.planning.plan import Plan
from pipelines.spark.dataframes import to_records
from pipelines.spark.runner import SparkRunner
from pipelines.transforms.transform import Transforms
from tests.support.fetching import LOOPBACK

REVIEWS = """product,text,date,seen on
lamp,I love it,2026-02-03,03.02.2026
cup,Terrible and ugly,2026-01-31,31.01.2026
lamp,It is a lamp,2026-02-28T10:00:00Z,28.02.2026
lamp,,2026-02-01,01.02.2026
cup,Not good,soon,soon
"""
TITLE = "{stage: extract, args: [{selector: h1, as: title}]}"
Rows = list[dict[str, Any]]
Run = Callable[..., Rows]
Make = Callable[[PlanRun], LocalRunner | SparkRunner]


def make_context(plan: Plan, **more: Any) -> RunContext:
    """Return the context of a run that may fetch from this machine."""
    return RunContext(fetch=make_fetch_options(plan.options, LOOPBACK), **more)


def make_runner(get_spark: Callable[[], SparkSession], folder: Path, engine: EngineName = EngineName.AUTO) -> Run:
    """Return a function that runs a pipeline's text and returns its rows in document order.

    It runs on the engine that the product chooses. With the engine Spark, a test of a plan that runs on Spark anyway is
    skipped.
    """

    def run(
        text: str,
        context: RunContext | None = None,
        transforms: dict[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        **parameters: str,
    ) -> Rows:
        plan = Pipeline.from_yaml(text).plan(parameters, Transforms(transforms or {}))
        context = context or RunContext(files=FileFolder(str(folder / "spindle_files"), "spindle_files"))
        context = replace(
            context, fetch=make_context(plan).fetch, cache=make_cache_options(plan.options, context.cache)
        )
        choice = choose_engine(plan)
        if engine is EngineName.SPARK and choice.runs_on_spark:
            pytest.skip("it runs on Spark anyway")
        if engine is not EngineName.SPARK and not choice.runs_on_spark:
            with suppress(NeedsSpark), PlanRun(plan, context, environment=environment) as run:
                return list_records(LocalRunner(run).collect())
        spark = get_spark()
        with PlanRun(plan, context, environment=environment) as run:
            found = to_records(SparkRunner(run, spark).collect_ordered())
        spark.catalog.clearCache()
        return found

    return run


def crawl(url: str, *stages: str, options: str = "") -> str:
    """Return a pipeline that fetches an address, with stages from its third line on; `options` are those of spindle."""
    listed = "".join(f"- {stage}\n" for stage in stages)
    return f"fetch: {{url: '{url}'}}\npipeline:\n{listed}" + (f"spindle: {{{options}}}\n" if options else "")


def load_table(folder: Path, csv: str, stages: str) -> str:
    """Return a pipeline that loads a CSV file from the folder, with further stages from its third line on."""
    (folder / "table.csv").write_text(csv)
    return f"pipeline:\n- {{stage: load_csv, args: [{folder}/table.csv]}}\n{stages}"


def find_problem(text: str) -> Problem:
    """Return the only problem of a pipeline."""
    with pytest.raises(PipelineError) as error:
        check_yaml(text)
    (found,) = error.value.problems
    return found
