"""One execution from its spec to its last report."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from pyspark import SparkContext

from driver import logs
from driver.failures import sentence
from driver.meter import Meter
from driver.progress import Progress
from driver.report import Report
from driver.secrets import Secrets
from driver.spec import ExecutionSpec, PageCacheSpec, read_spec
from driver.webhook import WebhookFailed
from pipelines.page_cache.cache import CacheOptions, compact_shared_store
from pipelines.pipeline import Pipeline
from pipelines.planning.context import Files, RunContext
from pipelines.planning.options import cache_options, fetch_options
from pipelines.planning.plan import Plan
from pipelines.registry.catalog import load_plugins
from pipelines.spark.output import SavedRows, WrittenFiles
from pipelines.spark.run import Run, RunResult
from pipelines.spark.session import session
from pipelines.transforms.sandbox import Limits
from pipelines.transforms.transform import Transforms

_log = logging.getLogger(__name__)
_CANCEL_PATIENCE_SECONDS = 5.0


class Cancelled(BaseException):
    """SIGTERM came; like KeyboardInterrupt no ordinary exception, since py4j turns those into its own."""


def main(arguments: Sequence[str]) -> int:
    """Runs the execution of a spec file; 0 only when it reached COMPLETED, 143 when it was terminated."""
    logs.configure()
    if len(arguments) != 1:
        print("usage: python -m driver SPEC.json", file=sys.stderr)
        return 2
    spec = read_spec(Path(arguments[0]))
    secrets = Secrets(spec)
    logs.configure(secrets.hidden)
    with Meter() as meter, Report(spec, meter) as report:
        try:
            signal.signal(signal.SIGTERM, _cancel)
            return _reported(spec, secrets, report, meter)
        except Cancelled:
            _stop_spark_at_once()
            with suppress(WebhookFailed):  # whoever cancels has marked the execution already
                report.failed("cancelled", _CANCEL_PATIENCE_SECONDS)
            return 128 + signal.SIGTERM
        except WebhookFailed:
            _log.exception("the service could not be told how the execution ended")
            return 1


def _reported(spec: ExecutionSpec, secrets: Secrets, report: Report, meter: Meter) -> int:
    """Runs and reports the end, whatever it is; raises WebhookFailed and Cancelled."""
    try:
        fields = _execute(spec, secrets, report, meter)
        meter.finish()
    except Exception as error:
        # the last line of defence: any failure must end in a report, and its trace belongs in the log
        _log.exception("the execution failed")
        meter.finish()
        report.failed(secrets.hidden(sentence(error)))
        return 1
    report.completed(fields)
    return 0


def _execute(spec: ExecutionSpec, secrets: Secrets, report: Report, meter: Meter) -> dict[str, Any]:
    """Runs the pipeline and writes its output; the fields of the COMPLETED report."""
    pipeline = Pipeline.from_yaml(spec.pipeline_yaml)
    for failure in load_plugins():
        _log.warning("plugin left out", extra={"fields": {"reason": str(failure)}})
    transforms = Transforms(spec.row_transforms, Limits(only_isolated=spec.isolate_transforms))
    if warning := transforms.warning():
        _log.warning(warning)
    plan = pipeline.plan(spec.parameters, transforms)  # the one that is shown
    running = pipeline.plan(secrets.revealed(spec.parameters), transforms)
    with Run(running, _context(spec, running, secrets), spec.preview_rows) as run:
        meter.count(run)
        progress = Progress(plan, run, secrets.hidden)
        report.planned(plan, progress)
        spark = session(spec.spark.master, spec.job_name, spec.spark.conf, running.reads_files)
        meter.watch(spark.sparkContext)
        report.started(plan, spark.sparkContext.uiWebUrl)
        result = run.write(spark, spec.output.path)
        progress.set_result(result)
        return _completed(spec, plan, result, run)


def _context(spec: ExecutionSpec, plan: Plan, secrets: Secrets) -> RunContext:
    return RunContext(
        cache=cache_options(plan.options, _cache(spec.pages, secrets)),
        fetch=fetch_options(plan.options, spec.fetch.allow_networks),
        inputs={path: Files(each.paths, each.format) for path, each in spec.inputs.items()},
        local_folders=spec.local_folders,
        limit=spec.limit,
        saves_folder=spec.output.saves,
    )


def _cache(pages: PageCacheSpec | None, secrets: Secrets) -> CacheOptions:
    if pages is None:
        return CacheOptions(secrets=secrets.values)
    compact_shared_store(pages.folder, pages.keep_seconds, pages.max_bytes)
    return CacheOptions(pages.folder, None, pages.lifetime_seconds, pages.trusted_since, secrets.values)


def _completed(spec: ExecutionSpec, plan: Plan, result: RunResult, run: Run) -> dict[str, Any]:
    written, counts = result.output, run.get_counts().values()
    return {
        "outputDatasetPath": spec.output.path,
        "outputDatasetFormat": plan.output.format,
        "outputDatasetSchema": json.dumps(_columns(written)),
        "recordsProcessed": max((each.rows for each in counts), default=written.rows),
        "recordsOutput": written.rows,
        "outputFileSizeBytes": written.bytes,
        "partitionsCount": written.files,
        "warningCount": len(plan.warnings),
        "additionalMetrics": {
            "mode": plan.output.mode,
            "outputName": plan.output.path,
            "saves": [_saved(each) for each in result.saved],
        },
    }


def _saved(saved: SavedRows) -> dict[str, Any]:
    return {
        "path": saved.path,
        "mode": saved.mode,
        "format": saved.format,
        "folder": saved.folder,
        "columns": _columns(saved.written),
        "rows": saved.written.rows,
        "bytes": saved.written.bytes,
    }


def _columns(written: WrittenFiles) -> list[dict[str, str]]:
    return [{"name": name, "type": type_} for name, type_ in written.columns]


def _stop_spark_at_once() -> None:
    """Ends the JVM, and with it the Python workers: a call that was interrupted leaves no way to ask it politely."""
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if gateway is not None:
        gateway.proc.terminate()
        gateway.proc.wait(timeout=10)


def _cancel(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Cancelled
