"""Between two executions in one driver: the traces of the first are removed, or the driver ends."""

from __future__ import annotations

import logging
import os
import shutil
from copy import copy
from functools import partial
from pathlib import Path

import psutil
from dagster_pipes import PipesContext
from pyspark.sql import SparkSession

from driver.execution import COMPLETED, PIPELINE_FAILED
from driver.handover import SPARE_FILE, TAKEN, SpareSpec, Taken, name_cancel_mark
from driver.logs import MaskedOutput
from driver.spark_run import StartedSpark
from driver.spark_status import SparkStatus
from driver.spec import ExecutionSpec
from pipelines.filesystem import list_bucket_access, load_user_access
from pipelines.spark.renewal import measure_heap, renew_session, write_to_log

_MAX_HEAP = 0.5  # the share that is in use after a collection of garbage
_MAX_BYTES = 2**30  # of this process

_log = logging.getLogger(__name__)


class Renewal:
    """Decides whether a driver may take another execution, and prepares it for that.

    Made before the first execution, it knows the environment and the files that are the driver's own.
    """

    def __init__(self, spec: SpareSpec, folder: Path, output: MaskedOutput) -> None:
        self._spec = spec
        self._folder = folder
        self._output = output
        self._own_log = os.dup(output.target)
        self._environment = dict(os.environ)
        self._files = {each.name for each in folder.iterdir()} | {SPARE_FILE, TAKEN}
        self._served = 0

    def begin(self, spec: ExecutionSpec) -> None:
        """Write whose executions the driver serves from now on, and how many."""
        executions = self._spec.executions if spec.reuses_driver else 1
        offered = self._spec.model_copy(update={"organization_id": spec.organization_id, "executions": executions})
        draft = self._folder / f"{SPARE_FILE}.new"
        draft.write_text(offered.model_dump_json(by_alias=True))
        draft.rename(self._folder / SPARE_FILE)

    def renew(self, spec: ExecutionSpec, exit_code: int, spark: SparkSession) -> StartedSpark | None:
        """Return a new session for the next execution, or nothing if this driver must end.

        The log of the execution is complete before `release` shows the end of its driver.
        """
        self._served += 1
        has_own_buckets = bool(load_user_access() or list_bucket_access())  # their keys stay in the JVM
        self._output.drain(partial(write_to_log, spark))
        self._output.redirect(self._own_log)
        self._output.set_mask(copy)
        if reason := self._find_end(spec, exit_code, has_own_buckets):
            _log.info("the driver takes no other execution", extra={"fields": {"reason": reason}})
            return None
        os.environ.clear()
        os.environ.update(self._environment)
        PipesContext._instance = None  # pyright: ignore[reportPrivateUsage]
        renewed = renew_session(spark)
        self._remove_files()
        heap, memory = measure_heap(renewed), psutil.Process().memory_info().rss
        if heap > _MAX_HEAP or memory > _MAX_BYTES:
            fields = {"heap": round(heap, 2), "bytes": memory}
            _log.info("the driver has too little memory for another execution", extra={"fields": fields})
            return None
        status = SparkStatus(renewed.sparkContext)
        status.reset()
        return renewed, status

    def release(self, taken: Taken, spec: ExecutionSpec) -> bool:
        """End the execution's hold of this driver; return False when it was cancelled: a kill may follow."""
        os.close(taken.lock)
        if (self._folder / name_cancel_mark(spec.execution_id, spec.attempt)).exists():
            return False
        (self._folder / TAKEN).unlink(missing_ok=True)
        return True

    def _find_end(self, spec: ExecutionSpec, exit_code: int, has_own_buckets: bool) -> str | None:
        if exit_code not in (COMPLETED, PIPELINE_FAILED):
            return f"exit code {exit_code}"
        if has_own_buckets:
            return "it has keys to buckets"
        if not spec.reuses_driver:
            return "drivers serve one execution each"
        return "it has served its executions" if self._served >= self._spec.executions else None

    def _remove_files(self) -> None:
        for each in self._folder.iterdir():
            if each.name not in self._files:
                if each.is_dir() and not each.is_symlink():
                    shutil.rmtree(each, ignore_errors=True)
                else:
                    each.unlink(missing_ok=True)
