"""Description of a failure in one sentence for the user; the log has the stack trace."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException

from pipelines.errors import PipelineError, RunError, summarize_error

_MAX_CHARACTERS = 500


def describe_failure(error: BaseException) -> str:
    if isinstance(error, PipelineError | RunError):
        return str(error)
    if isinstance(error, PythonException):
        line = _get_last_line(str(error))
        raised_by_us = line.removeprefix(f"{RunError.__module__}.{RunError.__qualname__}: ")
        return raised_by_us if raised_by_us != line else f"a worker failed: {line}"
    if isinstance(error, PySparkException):
        return f"Spark refused: {summarize_error(error)}"
    if isinstance(error, Py4JError | ConnectionError):
        return "Spark ended unexpectedly; the log tells what it said last (often: it ran out of memory)"
    return f"the run failed unexpectedly: {type(error).__name__}: {summarize_error(error)}"


def _get_last_line(trace: str) -> str:
    """Return the exception's own line: the last one of the Python trace, before the JVM's."""
    python, _, _ = trace.partition("JVM stacktrace")
    lines = [line for line in python.splitlines() if line.strip()]
    return lines[-1].strip()[:_MAX_CHARACTERS] if lines else "no further message"
