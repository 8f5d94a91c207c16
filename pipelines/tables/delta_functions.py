"""The function of Spark that Delta's merge calls, and that pipelines must not call."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

_NEEDED_BY_DELTA = "input_file_name"
_removed: list[tuple[Any, Any]] = []  # description and builder of that function, in each registry


def keep_delta_functions(spark: SparkSession) -> None:
    """Remember the function before it is removed from the registries of a session."""
    java: Any = spark  # PySpark has no API for it
    needed = java._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(_NEEDED_BY_DELTA)
    found = [
        (functions.lookupFunction(needed), functions.lookupFunctionBuilder(needed))
        for functions in list_registries(spark)[:2]
    ]
    if all(info.isDefined() for info, _ in found):  # only in the first session of a JVM
        _removed[:] = [(info.get(), builder.get()) for info, builder in found]


@contextmanager
def allow_delta_functions(spark: SparkSession) -> Generator[None]:
    """Let Delta's merge call a function that pipelines must not call; no pipeline's SQL may be analyzed meanwhile."""
    java: Any = spark
    identifier = java._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(_NEEDED_BY_DELTA)
    registries = list_registries(spark)[: len(_removed)]
    for functions, (info, builder) in zip(registries, _removed, strict=True):
        functions.registerFunction(identifier, info, builder)
    try:
        yield
    finally:
        for functions in registries:
            functions.dropFunction(identifier)


def list_registries(spark: SparkSession) -> list[Any]:
    """Return the registries of functions: the session's, the origin of those of other sessions, those of tables."""
    java: Any = spark
    state, analysis = java._jsparkSession.sessionState(), java._jvm.org.apache.spark.sql.catalyst.analysis
    return [
        state.functionRegistry(),
        analysis.FunctionRegistry.builtin(),
        state.tableFunctionRegistry(),
        analysis.TableFunctionRegistry.builtin(),
    ]
