"""Any failure → one sentence for the person who started the execution; the trace is for the log."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException

from pipelines.errors import PipelineError, RunError, summarize_error


def sentence(error: BaseException) -> str:
    """What failed, without stack traces."""
    if isinstance(error, PipelineError | RunError):
        return str(error)
    if isinstance(error, PythonException):
        line = _last_line(str(error))
        own = line.removeprefix(f"{RunError.__module__}.{RunError.__qualname__}: ")
        return own if own != line else f"a worker failed: {line}"
    if isinstance(error, PySparkException):
        return f"Spark refused: {summarize_error(error)}"
    if isinstance(error, Py4JError | ConnectionError):
        return "Spark ended unexpectedly; the log tells what it said last (often: it ran out of memory)"
    return f"the run failed unexpectedly: {type(error).__name__}: {summarize_error(error)}"


def _last_line(trace: str) -> str:
    """The exception's own line: the last one of a Python trace, before anything that the JVM adds."""
    python, _, _ = trace.partition("JVM stacktrace")
    lines = [line for line in python.splitlines() if line.strip()]
    return lines[-1].strip()[:500] if lines else "no further message"
