"""A host of executions of one organization, one after another, with or without Spark.

On one machine it is a spare: Spark starts, and the process waits for its first execution in its folder, which is the
one for temporary files too. In a pod the folder is the Secret with the first execution; lines of the log mark
the ends of executions, and show that the pod may have another one.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import Future, wait
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from driver.cancellation import is_cancelled, raise_cancelled
from driver.execution import OTHER_FAILED, execute
from driver.host_folder import (
    CERTIFICATE_FILE,
    ENVIRONMENT_FILE,
    SPEC_FILE,
    HostSpec,
)
from driver.logs import MaskedOutput
from driver.messages import MARK_VARIABLE, Boundary
from driver.resource_usage import Usage, measure_usage
from driver.reuse import DriverReuse
from driver.transport import HostRequest, KeeperEnded, Listener, Received, TlsListener, UnixListener
from pipelines.contract.request import RunRequest, SparkSpec, read_request

if TYPE_CHECKING:  # a host without Spark does not import it
    from driver.spark_start import SparkStart


def serve(folder: Path, spec: HostSpec) -> int:
    """Run the executions of a host; return the exit code of the last one."""
    with MaskedOutput() as output:
        signal.signal(signal.SIGTERM, raise_cancelled)
        host = Host(folder, spec, output)
        try:
            return host.run()
        except KeeperEnded:
            # with its group: a JVM that is just starting would not notice the end of its parent
            os.killpg(0, signal.SIGKILL)
            raise
        except BaseException as error:
            if not is_cancelled(error):
                raise
            return 128 + signal.SIGTERM
        finally:
            host.close()


class Host:
    """The executions of this process, and its Spark where one of them has needed it."""

    def __init__(self, folder: Path, spec: HostSpec, output: MaskedOutput) -> None:
        self._folder = folder
        self._output = output
        self._spec = spec
        self._scratch = Path(gettempdir())
        self._reuse = DriverReuse(self._spec.executions, self._scratch, output)
        self._spark: SparkStart | None = None
        self._used = Usage()

    def run(self) -> int:
        exit_code, received = OTHER_FAILED, self._await_first()
        while received is not None:
            exit_code = self._run(received)
            may_go_on = self._renew(received.request.spec, exit_code)
            received = self._await_next(received, exit_code) if may_go_on else None
        return exit_code

    def close(self) -> None:
        """Terminate the JVM if there is one, also one that an execution has started."""
        if "pyspark" in sys.modules:
            from driver.spark_run import kill_spark

            kill_spark()

    def _await_first(self) -> Received | None:
        if self._spec.spark is None:
            variables = TypeAdapter(dict[str, str]).validate_json((self._folder / ENVIRONMENT_FILE).read_bytes())
            return Received(HostRequest(spec=read_request(self._folder / SPEC_FILE), environment=variables))
        listener, spark = UnixListener(self._folder), self._make_start(self._spec.spark, self._spec.memory)
        spark.begin()
        received = listener.receive(None, self._is_alive)
        if received is not None:
            self._await_spark(spark)
            self._used = spark.usage
        return received

    def _await_next(self, received: Received, exit_code: int) -> Received | None:
        listener = self._listen(received)
        if mark := received.request.environment.get(MARK_VARIABLE):
            self._output.write(Boundary(exit_code).format(mark))
        self._used = measure_usage(os.getpid()) or Usage()
        return listener.receive(self._spec.idle_seconds, self._is_alive)

    def _listen(self, received: Received) -> Listener:
        """End the execution's hold of this host, and listen for the next one."""
        if self._spec.tls is not None:
            return TlsListener(self._spec.tls, self._folder / CERTIFICATE_FILE)
        if received.lock is not None:
            os.close(received.lock)
        return UnixListener(self._folder)

    def _run(self, received: Received) -> int:
        execution, environment = received.request.spec, {**received.request.environment}
        if received.log is not None:
            self._output.redirect(received.log)
            os.close(received.log)
        if mark := environment.pop(MARK_VARIABLE, None):
            self._output.write(Boundary().format(mark))
        if execution.begins_with_spark and self._spark is None:
            # before its environment, which Spark would show
            self._await_spark(self._make_start(execution.spark))
        os.environ.update(environment)
        return execute(execution, self._output, self._spark.session if self._spark else None, self._used)

    def _make_start(self, spec: SparkSpec, memory: str | None = None) -> SparkStart:
        from driver.spark_start import SparkStart

        self._spark = SparkStart(spec, memory, self._scratch)
        return self._spark

    def _await_spark(self, spark: SparkStart) -> None:
        spark.hurry()
        wait([spark.session])
        self._reuse.keep_current()

    def _renew(self, execution: RunRequest, exit_code: int) -> bool:
        """Remove the traces of an execution; return whether another one may follow."""
        if self._spark is None:
            has_grown = "pyspark" in sys.modules  # that Spark has the execution's environment and files
            return self._reuse.end(execution, exit_code, None) and not has_grown and self._reuse.clean()
        if self._spark.session.exception() is not None or not self._is_alive():
            return False
        self._spark.finish()
        session, _ = self._spark.session.result()
        if not self._reuse.end(execution, exit_code, session):
            return False
        renewed = self._reuse.renew(session)
        if renewed is None:
            return False
        self._spark.session = Future()
        self._spark.session.set_result(renewed)
        return self._reuse.clean()

    def _is_alive(self) -> bool:
        """Return whether Spark runs or starts, where it was begun; raise the error of a failed start."""
        if self._spark is None or not self._spark.session.done():
            return True
        from driver.spark_run import is_spark_alive

        if not is_spark_alive():
            self._spark.session.result()
            return False
        return True
