"""Description of a failure in one sentence for the user; the log has the stack trace."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pipelines.errors import PipelineError, RunError, SparkEnded, StorageAway, summarize_error
from pipelines.spark.failures import ENDED, describe_spark_error, find_storage_failure

PIPELINE, DRIVER_LOST, UNAVAILABLE = "pipeline-failed", "driver-lost", "dependency-unavailable"  # of the service


def classify_failure(error: BaseException) -> str:
    """Return the code of a failure: whether the pipeline failed, or what it ran on."""
    if isinstance(error, StorageAway) or _is_storage_away(error):
        return UNAVAILABLE
    if isinstance(error, SparkEnded | Py4JError | ConnectionError) and not isinstance(error, PySparkException):
        return DRIVER_LOST
    return PIPELINE


def describe_failure(error: BaseException) -> str:
    if isinstance(error, PipelineError | RunError):
        return str(error)
    if failure := find_storage_failure(str(error)):
        return str(failure)
    if isinstance(error, PySparkException):
        return describe_spark_error(error)
    if isinstance(error, Py4JError | ConnectionError):
        return ENDED
    return f"the run failed unexpectedly: {type(error).__name__}: {summarize_error(error)}"


def find_line(error: BaseException) -> int | None:
    """Return the line of the stage that failed, None where it is unknown."""
    if isinstance(error, PipelineError):
        return error.problems[0].line
    return error.line if isinstance(error, RunError) else None


def _is_storage_away(error: BaseException) -> bool:
    return not isinstance(error, RunError) and isinstance(find_storage_failure(str(error)), StorageAway)
