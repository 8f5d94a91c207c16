"""The Spark session of a driver: settings for security, small jobs, logging and buckets."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from pipelines.errors import RunError
from pipelines.filesystem import S3Access, list_bucket_access, load_storage_access, load_user_access
from pipelines.http_client.guard import SPARK_PAGE_PORTS
from pipelines.java import JAVA_WANTED, describe_java, find_missing_java
from pipelines.registry import find_plugin_folders
from pipelines.spark import jars
from pipelines.spark.cluster import LOOPBACK, await_executors, find_own_address, is_local_master
from pipelines.spark.java_process import DEFAULT_HEAP, register_java
from pipelines.sql.expressions import REFUSED
from pipelines.tables.delta_functions import keep_delta_functions, list_registries

# an archive of Spark's classes, which driver.app_cds writes; its warnings would go to standard output
APP_CDS_ARCHIVE = Path(sys.prefix) / "share/spindle/spark-classes.jsa"
APP_CDS_LOGGING = "-Xlog:cds*=off"
LOGGING = Path(__file__).with_name("log4j2.properties")
# In a crawl, Java's C2 compiler takes more CPU than all tasks: most code runs too briefly to repay it
_LATE_C2 = (  # ten times the defaults
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
_NO_C2 = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"  # the default with C2
# Java must not fetch documents that XML refers to
_NO_EXTERNAL_XML = " ".join(f"-Djavax.xml.accessExternal{kind}=" for kind in ("DTD", "Schema", "Stylesheet"))
_USER = "spindle"  # the value of `user` in SQL: a hidden account name
_PACKAGES = str(Path(__file__).parents[2])
# it drops the steps before an empty result from a running plan, and their counts with them
_DROPS_COUNTS = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"

_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_FIXED_KEYS = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TEMPORARY_KEYS = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_NO_KEYS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
BUCKET_SETTINGS = {
    "fs.s3.impl": _CLASS,
    "fs.s3a.impl": _CLASS,
    "fs.s3n.impl": _CLASS,
    # never those of the machine
    "fs.s3a.aws.credentials.provider": _NO_KEYS,
    # a server that is away is reported within a minute
    "fs.s3a.attempts.maximum": "3",
    "fs.s3a.retry.limit": "4",
    "fs.s3a.connection.establish.timeout": "5s",
    "fs.s3a.connection.timeout": "30s",
    "fs.s3a.create.checksum.algorithm": "",
    # blocks of uploads are in memory, not in a folder that several users share
    "fs.s3a.fast.upload.buffer": "bytebuffer",
    "fs.s3a.fast.upload.active.blocks": "2",
    "fs.s3a.multipart.size": "16M",
}


def start_session(
    master: str = "local[*]",
    name: str = "spindle",
    conf: Mapping[str, str] | None = None,
    loads: bool = True,
    libraries: Iterable[str] = (),
    log: Path | None = None,
) -> SparkSession:
    """Start Spark, or return the running session; `conf` overrides the defaults.

    A plan that loads no files (`loads`) leaves so little work to Java that its C2 compiler is turned off. Java
    libraries (pipelines/spark/jars.py) are fetched when they are missing. With `log`, the JVM's log is in that file
    instead of on standard error.
    """
    session_conf = build_conf(master, name, conf, loads, libraries)
    set_environment(master, has_remote_readers="spark.ui.filters" in session_conf)
    builder = SparkSession.Builder()
    if log:
        session_conf["spark.driver.extraJavaOptions"] += f" -Dspindle.log='{log}' -Dspindle.stderr=off"
    for key, value in session_conf.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.driver.host", find_own_address(master))
    if missing := find_missing_java():
        raise RunError(f"{missing[0].upper()}{missing[1:]}")
    try:
        with register_java(session_conf.get("spark.driver.memory", DEFAULT_HEAP), log).capture_stderr():
            spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise RunError(f"Java ended before Spark had started: {describe_java()}. {JAVA_WANTED}") from error
    drop_functions(spark)
    if not is_local_master(master):
        await_executors(spark)
    return spark


def set_environment(master: str, has_remote_readers: bool = False) -> None:
    """Set the environment variables that a session needs beside its configuration.

    The web UI listens on loopback, unless it `has_remote_readers`, whose signatures it checks.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if is_local_master(master) and not has_remote_readers:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK  # the only setting for the address of the web UI
    os.environ.setdefault("SPARK_USER", _USER)


def build_conf(
    master: str,
    name: str = "spindle",
    conf: Mapping[str, str] | None = None,
    loads: bool = True,
    libraries: Iterable[str] = (),
) -> dict[str, str]:
    """Return the configuration of a session; `conf` overrides the defaults."""
    defaults = {**_get_defaults(loads), **jars.build_conf(libraries)}
    return {"spark.master": master, "spark.app.name": name, **defaults, **(conf or {})}


def drop_functions(spark: SparkSession) -> None:
    """Remove the functions that pipelines must not call, in addition to the check of their SQL."""
    java: Any = spark  # PySpark has no API for it
    keep_delta_functions(spark)
    registries = list_registries(spark)
    for identifier in map(java._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier, REFUSED):
        for functions in registries:
            functions.dropFunction(identifier)


def _get_defaults(loads: bool) -> dict[str, str]:
    paths = [_PACKAGES, *find_plugin_folders(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    compiler = _LATE_C2 if loads else _NO_C2
    logging, folder = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}", f"-Djava.io.tmpdir='{gettempdir()}'"
    properties = f"{logging} {folder} {_NO_EXTERNAL_XML}"
    return {
        "spark.driver.extraJavaOptions": f"{properties} -XX:-UsePerfData {compiler} {build_app_cds_option()}",
        "spark.executor.extraJavaOptions": _NO_EXTERNAL_XML,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        # a folder `core/` in the workers' current directory must not shadow ours
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.python.daemon.module": "pipelines.spark.daemon",
        # an event log is plain text in a file of the driver's own, which it copies to the storage
        "spark.eventLog.dir": Path(gettempdir()).as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.ui.port": str(SPARK_PAGE_PORTS.start),
        "spark.port.maxRetries": str(len(SPARK_PAGE_PORTS) - 1),
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # plans in logs show no options of data sources with secrets in them
        "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|credential|jaas|connection[.]uri",
        # a pipeline's SQL reads neither files nor the driver's environment
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.variable.substitute": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.optimizer.excludedRules": _DROPS_COUNTS,
        # small batches: fetching starts earlier, and less text is in memory
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.sql.parquet.compression.codec": "zstd",
        # cached rows are read once or twice: compression costs more than it saves
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # Hadoop does not count bytes of vectored reads from local files
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }


def build_app_cds_option(archive: Path = APP_CDS_ARCHIVE) -> str:
    """Return the JVM option that maps the archive, or nothing without an archive."""
    return f"-XX:SharedArchiveFile='{archive}' {APP_CDS_LOGGING}" if archive.exists() else ""


@contextmanager
def configure_small_jobs(spark: SparkSession) -> Generator[None]:
    """Turn adaptive execution and code generation off, which cost more than small jobs take."""
    settings = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")
    before = {name: str(spark.conf.get(name)) for name in settings}
    try:
        for name in settings:
            spark.conf.set(name, "false")
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def configure_buckets(spark: SparkSession) -> None:
    """Give the session access to the service's bucket, and to others by the AWS credential of the environment."""
    found = [each for each in (load_user_access(), *list_bucket_access(), load_storage_access()) if each]
    if not found:
        return
    java: Any = spark  # PySpark has no API for it
    hadoop = java._jsc.hadoopConfiguration() if hasattr(java, "_jsc") else java.sparkContext._jsc.hadoopConfiguration()
    settings = dict(BUCKET_SETTINGS)
    for access in found:
        settings |= dict(_list_settings(access))
    for name, value in settings.items():
        hadoop.set(name, value)


def _list_settings(access: S3Access) -> Iterator[tuple[str, str]]:
    prefix = f"fs.s3a.bucket.{access.bucket}" if access.bucket else "fs.s3a"
    yield f"{prefix}.access.key", access.access_key_id
    yield f"{prefix}.secret.key", access.secret_access_key
    yield f"{prefix}.aws.credentials.provider", _TEMPORARY_KEYS if access.session_token else _FIXED_KEYS
    if access.session_token:
        yield f"{prefix}.session.token", access.session_token
    yield f"{prefix}.endpoint.region", access.region
    yield f"{prefix}.path.style.access", str(access.path_style).lower()
    yield f"{prefix}.endpoint", access.endpoint or ""
