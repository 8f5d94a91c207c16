"""Values that Spark observes during the action that computes rows."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import Observation, SparkSession

_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.01


def read_observation(observation: Observation) -> list[Any] | None:
    """Return the observed values as Java gives them.

    None if there is no result yet, after an error, and for rows not computed.

    Asks the JVM's object: PySpark's `get` blocks until there is a result, and fails when Spark has removed the observed
    rows from its plan, because no row could follow from them.
    """
    java: Any = observation._jo  # pyright: ignore[reportPrivateUsage]
    try:
        if not java.future().isCompleted():
            return None
        row = java.getRow()
    except (Py4JNetworkError, OSError):  # the JVM of a cancelled run has ended
        return None
    return [row.get(position) for position in range(row.length())] if row.length() else None


def wait_for_observation(observation: Observation) -> list[Any] | None:
    """Return the values observed by an action that has ended, of which Spark tells its listeners soon after.

    None for rows that Spark has removed from its plan.
    """
    java: Any = observation._jo  # pyright: ignore[reportPrivateUsage]
    deadline = time.monotonic() + _WAIT_SECONDS
    while not java.future().isCompleted():
        if time.monotonic() > deadline:
            raise TimeoutError("Spark has not said what it observed")
        time.sleep(_POLL_SECONDS)
    return read_observation(observation)


def wait_for_listeners(spark: SparkSession) -> None:
    """Wait until Spark's listeners know all that has ended: observed values reach them after the action."""
    java: Any = spark.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    with suppress(Py4JError, OSError):  # listeners that take a minute, or a JVM that has ended
        java.sc().listenerBus().waitUntilEmpty(int(_WAIT_SECONDS * 1000))
