"""`python -m driver --pod FOLDER`: executions of one organization, one after another, in a pod.

The folder is the Secret of the pod: the first execution with its variables, and the channel for those that follow. A
line of the log marks the end of an execution, and shows that the pod may have another one.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import Future
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from driver.cancellation import is_cancelled, raise_cancelled
from driver.channel import (
    CERTIFICATE_FILE,
    CHANNEL_FILE,
    ENVIRONMENT_FILE,
    SPEC_FILE,
    Channel,
    ChannelSpec,
    PodRequest,
)
from driver.execution import execute
from driver.logs import MaskedOutput
from driver.messages import MARK_VARIABLE, Boundary
from driver.resource_usage import Usage, measure_usage
from driver.reuse import DriverReuse
from pipelines.contract.request import RunRequest, read_request

if TYPE_CHECKING:
    from driver.spark_run import WarmSpark

_APPLICATION = "spindle"


def serve(folder: Path) -> int:
    """Run the execution of the folder and those that follow; return the exit code of the last one that has run."""
    with MaskedOutput() as output:
        signal.signal(signal.SIGTERM, raise_cancelled)
        driver = PodDriver(folder, output)
        try:
            return driver.run()
        except BaseException as error:
            if not is_cancelled(error):
                raise
            return 128 + signal.SIGTERM
        finally:
            driver.close()


class PodDriver:
    """The executions of a pod: the one of its folder, then those of its channel."""

    def __init__(self, folder: Path, output: MaskedOutput) -> None:
        self._folder = folder
        self._output = output
        self._channel = ChannelSpec.model_validate_json((folder / CHANNEL_FILE).read_bytes())
        self._reuse = DriverReuse(self._channel.executions, Path(gettempdir()), output)
        self._spark: WarmSpark | None = None

    def run(self) -> int:
        request, used = self._read_first(), Usage()
        while True:
            environment = {**request.environment}
            mark = environment.pop(MARK_VARIABLE)
            self._output.write(Boundary().format(mark))
            if request.spec.begins_with_spark and self._spark is None:
                self._start_spark(request.spec)
            os.environ.update(environment)
            exit_code = execute(request.spec, self._output, self._spark, used)
            if not self._renew(request.spec, exit_code):
                return exit_code
            channel = Channel(self._channel, self._folder / CERTIFICATE_FILE)
            self._output.write(Boundary(exit_code).format(mark))
            used = measure_usage(os.getpid()) or Usage()
            following = channel.receive(self._channel.idle_seconds, self._is_alive)
            if following is None:
                return exit_code
            request = following

    def close(self) -> None:
        """Terminate the JVM if there is one, also one that an execution has started."""
        if "pyspark" in sys.modules:
            from driver.spark_run import kill_spark

            kill_spark()

    def _read_first(self) -> PodRequest:
        variables = TypeAdapter(dict[str, str]).validate_json((self._folder / ENVIRONMENT_FILE).read_bytes())
        return PodRequest(spec=read_request(self._folder / SPEC_FILE), environment=variables)

    def _start_spark(self, spec: RunRequest) -> None:
        """Start Spark before the execution: its environment has no variable of it, and its files are the driver's."""
        from driver.spark_run import WarmSpark
        from driver.spark_status import SparkStatus
        from pipelines.spark.session import start_session

        self._spark, own = WarmSpark(), spec.spark
        try:
            session = start_session(own.master, _APPLICATION, own.conf, libraries=own.libraries)
            self._spark.set_result((session, SparkStatus(session.sparkContext)))
        except Exception as error:
            if is_cancelled(error):
                raise
            self._spark.set_exception(error)  # the execution fails with it
        self._reuse.keep_files()

    def _renew(self, spec: RunRequest, exit_code: int) -> bool:
        """Remove the traces of an execution; return whether another one may follow."""
        if self._spark is None:
            if not self._reuse.end(spec, exit_code, None):
                return False
            if "pyspark" in sys.modules:  # it has grown over to Spark, which has the execution's environment and files
                return False
            return self._reuse.clean()
        if self._spark.exception() is not None or not self._is_alive():
            return False
        session, _ = self._spark.result()
        if not self._reuse.end(spec, exit_code, session):
            return False
        renewed = self._reuse.renew(session)
        if renewed is None:
            return False
        self._spark = Future()
        self._spark.set_result(renewed)
        return self._reuse.clean()

    def _is_alive(self) -> bool:
        """Return whether Spark still runs, where it was started."""
        if self._spark is None:
            return True
        from driver.spark_run import is_spark_alive

        return is_spark_alive()
