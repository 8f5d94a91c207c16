"""A Spark session for one driver: quiet, on loopback, in UTC, and quick for small jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from pyspark.sql import SparkSession

from pipelines.language.expressions import REFUSED
from pipelines.registry.plugins import find_plugin_folders
from pipelines.spark.classes import class_path, java_option

_LOGGING = Path(__file__).with_name("log4j2.properties")
# Java's second compiler took more time than all of Spark's tasks in a crawl, and most code runs too briefly to repay it
_SECOND_COMPILER_LATE = (  # ten times
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
_NO_SECOND_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"  # as large as with it
# no XML that Java reads makes it ask for another document
_NO_OUTER_XML = " ".join(f"-Djavax.xml.accessExternal{kind}=" for kind in ("DTD", "Schema", "Stylesheet"))
_USER = "spindle"  # what `user` is in SQL, which is a column or the name of who runs Spark: only Spark can tell which
_PACKAGES = str(Path(__file__).parents[2])


def session(
    master: str = "local[*]", name: str = "spindle", conf: Mapping[str, str] | None = None, loads: bool = True
) -> SparkSession:
    """Starts Spark (or returns the session that runs already); `conf` goes over the defaults.

    Where nothing `loads` files, workers make every row, and Java has too little to do to repay its second compiler.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # the only setting that the web UI's address follows
    os.environ.setdefault("SPARK_USER", _USER)
    builder = SparkSession.Builder().master(master).appName(name)
    for key, value in {**_defaults(loads), **(conf or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    _forget_functions(spark)
    return spark


def _forget_functions(spark: SparkSession) -> None:
    """A pipeline's SQL is checked before it comes here; what it must not call is not there at all."""
    java: Any = spark  # PySpark has no call for it
    state, catalyst = java._jsparkSession.sessionState(), java._jvm.org.apache.spark.sql.catalyst
    registries = (
        state.functionRegistry(),
        state.tableFunctionRegistry(),
        # of which other sessions, and the defaults that a schema gives its columns, have theirs
        catalyst.analysis.FunctionRegistry.builtin(),
        catalyst.analysis.TableFunctionRegistry.builtin(),
    )
    for identifier in map(catalyst.FunctionIdentifier, REFUSED):
        for functions in registries:
            functions.dropFunction(identifier)


def _defaults(loads: bool) -> dict[str, str]:
    paths = [_PACKAGES, *find_plugin_folders(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    compiler = _SECOND_COMPILER_LATE if loads else _NO_SECOND_COMPILER
    logging, folder = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}", f"-Djava.io.tmpdir='{gettempdir()}'"
    properties = f"{logging} {folder} {_NO_OUTER_XML}"
    return {
        "spark.driver.extraJavaOptions": f"{properties} -XX:-UsePerfData {compiler} {java_option()}",
        "spark.executor.extraJavaOptions": _NO_OUTER_XML,
        "spark.driver.extraClassPath": class_path(),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        # workers start in the data folder, where a user's own `core/` must not shadow ours
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.python.daemon.module": "pipelines.spark.daemon",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # SQL of a pipeline names neither files nor the driver's environment
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.variable.substitute": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # small batches: a pass begins to fetch before its first batch is full, and holds few pages' text at once
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.sql.parquet.compression.codec": "zstd",
        # rows that are held are read once or twice: to compress them costs more than it saves
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # Hadoop does not count what its vectored reads take from local files
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
