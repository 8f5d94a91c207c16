"""Failures of Spark and of object storage as sentences; those of Spark name the stage and its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from pipelines.engine.walk import STEP_KEY, locate_failure
from pipelines.errors import RunError, SparkEnded, StageFailed, summarize_error
from pipelines.filesystem import find_storage_failure
from pipelines.planning.plan import Plan, Step
from pipelines.spark.java_process import describe_end, find_last_words

_JAVA_NAME = re.compile(r"^(?:Caused )?(?:by)?: (?:[\w$]+\.)*(?=[\w$])")
_RAISED_BY_US = re.compile("|".join(rf"{each.__module__}\.{each.__qualname__}: " for each in (RunError, StageFailed)))
_FAILING_FUNCTIONS = ("assert_true", "raise_error")  # their errors do not tell the expression
_GONE = re.compile("OutOfMemoryError|ExecutorLostFailure|stopped SparkContext|SparkContext was shut down")
_NOT_STARTED = re.compile(r'Cannot run program "(?P<program>[^"]+)"[^:]*: (?:error=\d+, )?(?P<reason>[^\n]+)')


def describe_spark_error(error: PySparkException) -> str:
    """Return a sentence; an error of ours, which a worker or a stage's SQL raised, is returned as it is."""
    raised = error.getMessageParameters() if error.getCondition() == "USER_RAISED_EXCEPTION" else None
    if raised and STEP_KEY.match(sentence := raised.get("errorMessage", "")):
        return sentence
    if isinstance(error, PythonException):
        line = summarize_error(error)
        raised_by_us = _RAISED_BY_US.match(line)
        return line[raised_by_us.end() :] if raised_by_us else f"a worker failed: {line}"
    return f"Spark refused: {summarize_error(error)}"


def is_spark_gone(error: BaseException) -> bool:
    """Return whether an error says that the JVM or an executor has ended; a Java exception alone does not."""
    if isinstance(error, Py4JJavaError):
        return _GONE.search(str(error)) is not None
    return isinstance(error, Py4JError | ConnectionError) and not isinstance(error, PySparkException)


def describe_java_error(error: Py4JJavaError) -> str:
    """Return a sentence with the message and the first cause of an exception that Spark has no Python class for."""
    text = _summarize_java_error(error)
    if not is_spark_gone(error):
        return f"Spark failed: {text}"
    return describe_end(find_last_words(str(error).splitlines()) or text)


def _summarize_java_error(error: Py4JJavaError) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    message = next((_JAVA_NAME.sub("", line) for line in lines if line.startswith(": ")), "no further message")
    causes = [_JAVA_NAME.sub("", line) for line in lines if line.startswith("Caused by: ")]
    cause = f" ({causes[-1][:300]})" if causes and causes[-1] not in message else ""
    return f"{message[:300]}{cause}"


def describe_unlocated_error(error: BaseException) -> str | None:
    """Return a sentence for an error of Spark or of a storage that no stage is known for; None for another one."""
    if failure := find_storage_failure(str(error)):
        return str(failure)
    if isinstance(error, PySparkException):
        return describe_spark_error(error)
    if isinstance(error, Py4JJavaError):
        return describe_java_error(error)
    return describe_end() if is_spark_gone(error) else None


@contextmanager
def locate_spark_errors(plan: Plan, list_begun: Callable[[], Collection[str]]) -> Generator[None]:
    """Raise RunError for errors of Spark, with the stage and its line.

    `list_begun` returns the keys of the steps that have begun in a worker: where the error does not tell its stage, it
    is the last of them or one after it.
    """
    try:
        yield
    except PySparkException as error:
        failure = find_storage_failure(str(error))
        sentence = str(failure) if failure else describe_spark_error(error)
        located = locate_failure(plan, sentence, list_begun(), _find_sql_steps(plan, error))
        raise (type(failure) if failure else RunError)(*located) from error
    except (Py4JError, OSError) as error:
        if failure := find_storage_failure(str(error)):
            located = locate_failure(plan, str(failure), list_begun())
            raise type(failure)(*located) from error
        if match := _NOT_STARTED.search(str(error)):
            raise RunError(
                f"Spark's machines cannot run {match['program']}: {match['reason']}; they need Spindle's Python "
                "environment at the same path, open to Spark's user"
            ) from error
        if isinstance(error, Py4JJavaError):
            kind = SparkEnded if is_spark_gone(error) else RunError
            raise kind(*locate_failure(plan, describe_java_error(error), list_begun())) from error
        if not isinstance(error, Py4JError | ConnectionError):
            raise
        raise SparkEnded(*locate_failure(plan, describe_end(), list_begun())) from error


def _find_sql_steps(plan: Plan, error: PySparkException) -> list[Step]:
    """Return the steps whose SQL has the expression that failed."""
    texts = [context.fragment() for context in error.getQueryContext() if context.contextType().name == "SQL"]
    if not texts and error.getCondition() == "USER_RAISED_EXCEPTION":
        texts = [*_FAILING_FUNCTIONS]
    texts = [" ".join(text.split()) for text in texts]
    described = [(step, " ".join(step.stage.describe().split())) for step in plan.steps if step.stage]
    return [step for step, sql in described if any(text in sql for text in texts if text)]
