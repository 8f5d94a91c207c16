"""Exceptions of Java that Spark has no Python class for: the JVM lives, and the sentence has their message."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from driver.failures import classify_failure, describe_failure
from pipelines.errors import RunError, SparkEnded
from pipelines.pipeline import Pipeline
from pipelines.spark.failures import locate_spark_errors

PLAN = Pipeline.from_yaml("pipeline: [{stage: load_csv, args: [in.csv]}]").plan()


def catch_java_error(spark: SparkSession, name: str, message: str, cause: str | None = None) -> Py4JJavaError:
    """Return an error as Python gets it when a method in the JVM throws."""
    jvm: Any = spark._jvm
    root = jvm.java.lang.RuntimeException(cause) if cause else None
    kind = getattr(jvm.java.lang, name)
    thrown = kind(message, root) if root else kind(message)
    future = jvm.java.util.concurrent.CompletableFuture()
    future.completeExceptionally(thrown)
    with pytest.raises(Py4JJavaError) as caught:
        future.get()
    return caught.value


def test_an_exception_of_java_is_a_failure_with_its_message(spark: SparkSession) -> None:
    error = catch_java_error(spark, "IllegalStateException", "no such codec", "zstd is not there")
    assert classify_failure(error) == "pipeline-failed"
    sentence = describe_failure(error)
    assert "no such codec" in sentence
    assert "zstd is not there" in sentence
    with pytest.raises(RunError, match="no such codec") as located, locate_spark_errors(PLAN, list):
        raise error
    assert not isinstance(located.value, SparkEnded)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("OutOfMemoryError", "Java heap space"),
        ("IllegalStateException", "Cannot call methods on a stopped SparkContext."),
    ],
)
def test_the_end_of_spark_in_an_exception_of_java_has_its_reason(spark: SparkSession, name: str, message: str) -> None:
    error = catch_java_error(spark, name, message)
    assert classify_failure(error) == "driver-lost"
    assert message in describe_failure(error)
    with pytest.raises(SparkEnded, match=message), locate_spark_errors(PLAN, list):
        raise error
