"""Between two executions in one driver: the traces of the first are removed, or the driver ends."""

from __future__ import annotations

import logging
import os
import shutil
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from dagster_pipes import PipesContext

from driver.execution import COMPLETED, PIPELINE_FAILED
from driver.logs import MaskedOutput
from pipelines.contract.request import RunRequest
from pipelines.filesystem import list_bucket_access, load_user_access

if TYPE_CHECKING:  # a driver without Spark does not import it
    from pyspark.sql import SparkSession

    from driver.spark_run import StartedSpark

_MAX_HEAP = 0.5  # the share that is in use after a collection of garbage
_MAX_BYTES = 2**30  # of this process

_log = logging.getLogger(__name__)


class DriverReuse:
    """Decides whether a driver may take another execution, and prepares it for that.

    The environment and the files of the time before the first execution are the driver's own.
    """

    def __init__(self, executions: int, folder: Path, output: MaskedOutput) -> None:
        self._executions = executions
        self._folder = folder
        self._output = output
        self._own_log = os.dup(output.target)
        self._served = 0
        self.keep_current()

    def keep_current(self) -> None:
        """Count the present environment and files as the driver's own."""
        self._environment = dict(os.environ)
        self._files = {each.name for each in self._folder.iterdir()}

    def end(self, spec: RunRequest, exit_code: int, spark: SparkSession | None) -> bool:
        """End an execution, whose log is complete then; return whether the driver may be renewed for another one."""
        self._served += 1
        has_own_buckets = bool(load_user_access() or list_bucket_access())  # their keys stay in the JVM
        self._output.drain(*([partial(_write_to_log, spark)] if spark else ()))
        self._output.redirect(self._own_log)
        self._output.set_mask(copy)
        if reason := self._find_end(spec, exit_code, has_own_buckets):
            _log.info("the driver takes no other execution", extra={"fields": {"reason": reason}})
            return False
        os.environ.clear()
        os.environ.update(self._environment)
        PipesContext._instance = None  # pyright: ignore[reportPrivateUsage]
        return True

    def renew(self, spark: SparkSession) -> StartedSpark | None:
        """Return a new session for the next execution; None where the driver has too little memory for it."""
        from driver.spark_status import SparkStatus
        from pipelines.spark.session_reset import measure_heap, reset_session

        renewed = reset_session(spark)
        heap = measure_heap(renewed)
        if heap > _MAX_HEAP:
            fields = {"heap": round(heap, 2)}
            _log.info("the driver has too little heap for another execution", extra={"fields": fields})
            return None
        status = SparkStatus(renewed.sparkContext)
        status.reset()
        return renewed, status

    def clean(self) -> bool:
        """Remove the execution's files; return whether this process has memory for another execution."""
        for each in self._folder.iterdir():
            if each.name not in self._files:
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each, ignore_errors=True)
                else:
                    each.unlink(missing_ok=True)
        memory = psutil.Process().memory_info().rss
        if memory > _MAX_BYTES:
            _log.info("the driver has too little memory for another execution", extra={"fields": {"bytes": memory}})
        return memory <= _MAX_BYTES

    def _find_end(self, spec: RunRequest, exit_code: int, has_own_buckets: bool) -> str | None:
        if exit_code not in (COMPLETED, PIPELINE_FAILED):
            return f"exit code {exit_code}"
        if has_own_buckets:
            return "it has keys to buckets"
        if not spec.reuses_driver:
            return "drivers serve one execution each"
        return "it has served its executions" if self._served >= self._executions else None


def _write_to_log(spark: SparkSession, line: str) -> None:
    from pipelines.spark.session_reset import write_to_log

    write_to_log(spark, line)
