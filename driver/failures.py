"""Description of a failure in one sentence for the user; the log has the stack trace."""

from __future__ import annotations

from pipelines.errors import PipelineError, RunError, SparkEnded, StorageAway, summarize_error
from pipelines.filesystem import find_storage_failure, is_disk_full

NO_SPACE = "No space left on device"  # in the errors of Java and of libraries
PIPELINE, DRIVER_LOST, UNAVAILABLE = "pipeline-failed", "driver-lost", "dependency-unavailable"  # of the service


def classify_failure(error: BaseException) -> str:
    """Return the code of a failure: whether the pipeline failed, or what it ran on."""
    if isinstance(error, StorageAway | SparkEnded):
        return UNAVAILABLE if isinstance(error, StorageAway) else DRIVER_LOST
    if is_disk_full(error) or is_disk_full(error.__cause__) or NO_SPACE in str(error):
        return UNAVAILABLE
    if isinstance(error, RunError | PipelineError):
        return PIPELINE
    if isinstance(find_storage_failure(str(error)), StorageAway):
        return UNAVAILABLE
    from pipelines.spark.failures import is_spark_gone  # imports Spark

    return DRIVER_LOST if is_spark_gone(error) else PIPELINE


def describe_failure(error: BaseException) -> str:
    if isinstance(error, PipelineError | RunError):
        return str(error)
    if is_disk_full(error):
        return "there is no space left on a disk that the driver writes to"
    from pipelines.spark.failures import describe_unlocated_error  # imports Spark

    described = describe_unlocated_error(error)
    return described or f"the run failed unexpectedly: {type(error).__name__}: {summarize_error(error)}"


def find_line(error: BaseException) -> int | None:
    """Return the line of the stage that failed, None where it is unknown."""
    if isinstance(error, PipelineError):
        return error.problems[0].line
    return error.line if isinstance(error, RunError) else None
