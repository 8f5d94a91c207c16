"""What runs an execution: the pipeline's word, then the job's, then the service's; whether its driver serves others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import Conflict
from core.lifecycle.executions.spec import build_spec
from core.tables import Execution
from pipelines.language.engines import LOADED_BYTES, EngineName
from tests.support.shop import PIPELINE, Shop

SQL = f"{PIPELINE}  - {{stage: sql_query, args: [SELECT 1 AS one FROM rows]}}"


def submit(shop: Shop) -> tuple[Execution, bool]:
    """Return the stored execution, and whether its driver begins with Spark."""
    execution = shop.reload(shop.submit())
    return execution, build_spec(shop.settings, shop.storage, execution).begins_with_spark


def test_a_plan_gets_the_engine_that_it_needs(shop: Shop) -> None:
    execution, begins_with_spark = submit(shop)
    assert (execution.engine, execution.spark_reason, begins_with_spark) == ("auto", None, False)
    shop.write_pipeline(SQL)
    execution, begins_with_spark = submit(shop)
    assert (execution.engine, execution.spark_reason, begins_with_spark) == ("auto", "sql_query in line 4", True)


def test_a_large_dataset_is_loaded_by_spark(shop: Shop) -> None:
    load = "pipeline: [{stage: load_parquet, args: ['spindle://shop/books']}]"
    for size, output, reason in (
        (LOADED_BYTES, "parquet", None),
        (LOADED_BYTES + 1, "parquet", "the format or size of 'spindle://shop/books'"),
        (1, "csv", "the format or size of 'spindle://shop/books'"),
    ):
        shop.write_pipeline(f"{PIPELINE}output: {{format: {output}}}")
        shop.complete(shop.submit(), output_file_size_bytes=size, output_dataset_format=output)
        shop.write_pipeline(f"{load}\noutput: {{path: spindle://shop/other}}")
        execution, begins_with_spark = submit(shop)
        assert (execution.spark_reason, begins_with_spark) == (reason, reason is not None)


def test_a_large_history_goes_on_with_spark(shop: Shop) -> None:
    shop.write_pipeline(f"{PIPELINE}output: {{mode: history, keys: [title]}}")
    for size, reason in ((LOADED_BYTES, None), (LOADED_BYTES + 1, None), (1, "the size of its history")):
        execution = shop.submit()  # goes on with the version of the size before
        assert shop.reload(execution).spark_reason == reason
        shop.complete(execution, output_file_size_bytes=size)


def test_a_job_names_its_engine_and_takes_it_back(shop: Shop) -> None:
    shop.change_job(engine="spark")
    assert submit(shop)[1]
    shop.change_job(engine="auto")
    assert not submit(shop)[1]


def test_the_pipeline_comes_before_the_job_and_the_job_before_the_service(shop: Shop) -> None:
    shop = replace(shop, settings=shop.settings.replace(engine=EngineName.SPARK))
    assert submit(shop)[1]
    shop.change_job(engine="local")
    assert not submit(shop)[1]
    shop.write_pipeline(f"{PIPELINE}\nspindle: {{engine: spark}}")
    assert submit(shop)[1]


def test_a_plan_that_needs_spark_is_not_run_locally(shop: Shop) -> None:
    shop.change_job(engine="local")
    shop.write_pipeline(SQL)
    with pytest.raises(Conflict, match="Sql_query in line 4 needs Spark") as refused:
        shop.submit()
    assert (refused.value.details[0].code, refused.value.details[0].path) == ("needs-spark", "line 4")


def allow(shop: Shop, *, job: bool, project: bool) -> None:
    shop.change_job(driver_reuse=job)
    shop.change_project(driver_reuse=project)


def reuses_driver(shop: Shop, execution: Execution) -> bool:
    return build_spec(shop.settings, shop.storage, shop.reload(execution)).reuses_driver


def test_a_project_or_a_job_turns_the_reuse_of_drivers_off(shop: Shop) -> None:
    found: list[bool] = []
    for job, project in ((True, True), (False, True), (True, False), (False, False)):
        allow(shop, job=job, project=project)
        found.append(reuses_driver(shop, shop.submit()))
    assert found == [True, False, False, False]


def test_an_execution_keeps_what_held_when_it_was_accepted(shop: Shop) -> None:
    execution = shop.submit()
    allow(shop, job=False, project=True)
    assert reuses_driver(shop, execution)
    without = replace(shop, settings=shop.settings.replace(driver_reuse=False))
    assert not reuses_driver(without, execution)
