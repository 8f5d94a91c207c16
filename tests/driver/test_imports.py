"""What a driver and `spindle run` load before they know that they need Spark."""

from __future__ import annotations

from tests.support.imports import list_imported


def test_spark_is_not_loaded_before_it_is_needed() -> None:
    assert list_imported("import driver.execution, driver.__main__, cli.run", ("pyspark", "py4j")) == []


def test_a_driver_loads_no_models_and_no_second_http_client_before_a_pipeline_asks() -> None:
    unused = ("httpx", "pipelines.inference.server", "pipelines.inference.shared_reader", "pipelines.models.client")
    start = "import driver.execution; from pipelines.registry import load_own_plugins; load_own_plugins()"
    assert list_imported(start, unused) == []
