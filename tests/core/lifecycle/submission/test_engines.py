"""What runs an execution: the pipeline's word, then the job's, then the service's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.definitions.jobs.models import JobEngine, JobUpdate
from core.definitions.jobs.repository import JobRepository
from core.errors import Conflict
from core.lifecycle.executions.spec import build_spec
from core.tables import Execution
from pipelines.language.engines import LOADED_BYTES, EngineName
from tests.support.shop import PIPELINE, Shop

SQL = f"{PIPELINE}  - {{stage: sql_query, args: [SELECT 1 AS one FROM rows]}}"


def set_engine(shop: Shop, engine: JobEngine) -> None:
    with shop.database.write() as session:
        jobs = JobRepository(session, shop.organization_id)
        jobs.update(shop.project_id, shop.job_id, JobUpdate(engine=engine))


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


def test_a_job_names_its_engine_and_takes_it_back(shop: Shop) -> None:
    set_engine(shop, "spark")
    assert submit(shop)[1]
    set_engine(shop, "auto")
    assert not submit(shop)[1]


def test_the_pipeline_comes_before_the_job_and_the_job_before_the_service(shop: Shop) -> None:
    shop = replace(shop, settings=shop.settings.replace(engine=EngineName.SPARK))
    assert submit(shop)[1]
    set_engine(shop, "local")
    assert not submit(shop)[1]
    shop.write_pipeline(f"{PIPELINE}\nspindle: {{engine: spark}}")
    assert submit(shop)[1]


def test_a_plan_that_needs_spark_is_not_run_locally(shop: Shop) -> None:
    set_engine(shop, "local")
    shop.write_pipeline(SQL)
    with pytest.raises(Conflict, match="Sql_query in line 4 needs Spark") as refused:
        shop.submit()
    assert (refused.value.details[0].code, refused.value.details[0].path) == ("needs-spark", "line 4")
