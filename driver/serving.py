"""A driver with Spark that serves one execution after another, however they get to it."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from driver.execution import COMPLETED, execute
from driver.handover import TakeRequest
from driver.logs import MaskedOutput
from driver.renewal import Renewal
from driver.resource_usage import Usage, measure_usage
from driver.spark_run import StartedSpark, WarmSession, is_spark_alive, kill_spark
from driver.spec import ExecutionSpec, read_spec

_CHECK_SECONDS = 1.0
_CLAIM_SECONDS = 10.0  # from a claim to the request


class OpenDoor(Protocol):
    """Waits for the request of an execution. `opened` is also set when none has come in time."""

    opened: threading.Event

    def is_claimed(self) -> bool:
        """Return whether somebody has reserved the driver and will send the request."""
        ...


class Entrance(Protocol):
    """How executions get to a driver."""

    def begin(self) -> TakeRequest | None:
        """Return the request that has come, with the driver's output in the log of its execution."""
        ...

    def finish_start(self) -> None:
        """End what still belongs to the start of Spark, before the session is renewed for the first time."""
        ...

    def reopen(self, spec: ExecutionSpec, exit_code: int) -> OpenDoor | None:
        """Show that the execution has ended, and wait for the next one; None when the driver must end."""
        ...


def serve_executions(entrance: Entrance, output: MaskedOutput, warm: WarmSession, renewal: Renewal) -> int:
    """Run the execution that has come and those that follow in the same JVM; return the last one's exit code."""
    exit_code = COMPLETED
    while (request := entrance.begin()) is not None:
        execution = read_spec(Path(request.spec))
        renewal.begin(execution)
        os.environ.update(request.environment)
        exit_code = execute(execution, output, warm)
        if warm.spark.exception() is not None or not is_spark_alive():
            break
        entrance.finish_start()
        renewed = renewal.renew(execution, exit_code, warm.spark.result()[0])
        if renewed is None:
            break
        warm = WarmSession(Future(), measure_usage(os.getpid()) or Usage())
        warm.spark.set_result(renewed)
        door = entrance.reopen(execution, exit_code)
        if door is None:
            break
        await_request(door, warm.spark)
    kill_spark()
    return exit_code


def await_request(door: OpenDoor, spark: Future[StartedSpark]) -> None:
    """Wait until the door has opened, Spark has failed or ended, or a claim of the driver has come to nothing."""
    claimed_at = None
    while not door.opened.wait(_CHECK_SECONDS):
        if spark.done() and not is_spark_alive():
            spark.result()
            return
        if door.is_claimed():
            claimed_at = claimed_at or time.monotonic()
            if time.monotonic() - claimed_at > _CLAIM_SECONDS:
                return
