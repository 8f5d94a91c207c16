"""Running one attempt of an execution, from its spec to its last report."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import psutil

from driver.cancellation import Cancelled, is_cancelled, raise_cancelled
from driver.failures import DRIVER_LOST, PIPELINE, classify_failure, describe_failure, find_line
from driver.host_folder import OWN_SPARK
from driver.logs import MaskedOutput
from driver.progress import RunProgress
from driver.report import Reporter
from driver.resource_usage import Usage, UsageMeter
from driver.secrets import Secrets
from driver.webhook import WebhookFailed
from pipelines.contract.context import RunContext
from pipelines.contract.report import (
    MergedVersion,
    PublishedPages,
    RunReport,
    RunResult,
    WrittenFiles,
    describe_columns,
)
from pipelines.contract.request import (
    GIVEN_ROWS,
    OUTPUT,
    CheckpointFolders,
    KnownPagesPlace,
    PageCacheSpec,
    RunRequest,
    Target,
    get_input_name,
)
from pipelines.engine.options import make_cache_options, make_fetch_options
from pipelines.engine.partial_run import GrownOver
from pipelines.engine.run import Run
from pipelines.errors import NeedsSpark, PipelineError, RunError
from pipelines.fetch import CrawlOptions
from pipelines.fetch.fetcher import build_user_agent
from pipelines.fetch.files import FileFolder
from pipelines.language.engines import EngineName
from pipelines.language.formats import Mode
from pipelines.local.engine_choice import choose_engine, find_engine_conflict, find_java_need
from pipelines.local.runner import LocalRunner
from pipelines.page_cache.cache import compact_shared_store
from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from pipelines.planning.partition import add_partition
from pipelines.planning.plan import Plan
from pipelines.registry import add_plugin_folders, describe_engine, load_plugins
from pipelines.spark.cluster import find_own_address
from pipelines.transforms.sandbox import Limits
from pipelines.transforms.transform import Transforms

if TYPE_CHECKING:
    from driver.spark_run import WarmSpark

COMPLETED, PIPELINE_FAILED, OTHER_FAILED = 0, 1, 3  # exit codes

_log = logging.getLogger(__name__)
_CANCEL_PATIENCE_SECONDS = 5.0
_OUT_OF_MEMORY = "OutOfMemoryError"
_LOOK_SECONDS = 0.2


def execute(spec: RunRequest, output: MaskedOutput, warm: WarmSpark | None = None, before: Usage | None = None) -> int:
    """Run the execution, with a warm session if there is one; what the process has used `before` is not its own.

    Return 0 when it COMPLETED, 1 when the pipeline failed, 3 when what it runs on did, 143 when it was terminated.
    """
    secrets = Secrets(spec)
    output.set_mask(secrets.mask)
    with UsageMeter(before) as meter, Reporter(spec, meter) as reporter:
        try:
            signal.signal(signal.SIGTERM, raise_cancelled)
            return _run_and_report(spec, secrets, reporter, meter, warm)
        except Cancelled:
            with suppress(WebhookFailed):  # a cancelled execution is marked in the database already
                reporter.report_failure("The driver was terminated.", DRIVER_LOST, patience=_CANCEL_PATIENCE_SECONDS)
            return 128 + signal.SIGTERM
        except WebhookFailed:
            _log.exception("the end of the execution could not be reported")
            return OTHER_FAILED


def _run_and_report(
    spec: RunRequest, secrets: Secrets, reporter: Reporter, meter: UsageMeter, warm: WarmSpark | None
) -> int:
    """Run the pipeline and report how it ended; raise WebhookFailed and Cancelled."""
    try:
        report, fields = _run(spec, secrets, reporter, meter, warm)
        meter.finish()
    except Exception as error:
        if is_cancelled(error):
            raise Cancelled from error
        # any failure is reported as a sentence, with its stack trace in the log
        _log.exception("the execution failed")
        meter.finish()
        sentence, code = secrets.mask(describe_failure(error)), classify_failure(error)
        reporter.report_failure(sentence, code, find_line(error))
        is_own = (
            isinstance(error, RunError | PipelineError)
            and code == PIPELINE
            and _OUT_OF_MEMORY not in str(error.__cause__)
        )
        return PIPELINE_FAILED if is_own else OTHER_FAILED
    reporter.report_success(report, fields)
    return COMPLETED


def _run(
    spec: RunRequest, secrets: Secrets, reporter: Reporter, meter: UsageMeter, warm: WarmSpark | None
) -> tuple[RunReport, dict[str, Any]]:
    """Run the pipeline and write its output; return what `_build_report` does."""
    add_plugin_folders(spec.plugins)
    pipeline = Pipeline.from_yaml(spec.pipeline_yaml)
    for failure in load_plugins().failures:
        _log.warning("plugin left out", extra={"fields": {"reason": str(failure)}})
    transforms = Transforms(spec.row_transforms, Limits(only_isolated=spec.isolate_transforms), spec.packages)
    if warning := transforms.warning():
        _log.warning(warning)
    if spec.arguments:
        _log.warning("arguments that set no parameter of the pipeline", extra={"fields": {"arguments": spec.arguments}})
    plan = pipeline.plan(secrets.reveal(spec.parameters), transforms)
    plan = plan if spec.publishes else plan.keep_apart()
    plan = _hide_titles(add_partition(plan, spec.partition) if spec.partition else plan, spec, secrets)
    with Run(plan, _build_context(spec, plan, secrets), spec.preview_rows, secrets.variables) as run:
        meter.watch_run(run)
        progress = RunProgress(plan, run, secrets.mask)
        reporter.report_plan(plan, progress)
        if versions := {get_input_name(key): each.version for key, each in spec.inputs.items() if key != GIVEN_ROWS}:
            _log.info("reads datasets", extra={"fields": {"versions": versions}})
        result = _write(spec, run, progress, reporter, meter, secrets, warm)
        progress.set_result(result)
        for note in progress.list_notes():
            _log.info(note)
        return _build_report(spec, plan, result, run, progress, secrets)


def _end_process(reporter: Reporter, sentence: str) -> NoReturn:
    """Report a failure from another thread than that of the pipeline, which it ends."""
    try:
        reporter.report_failure(sentence, PIPELINE)
    finally:
        os._exit(PIPELINE_FAILED)


def _write(
    spec: RunRequest,
    run: Run,
    progress: RunProgress,
    reporter: Reporter,
    meter: UsageMeter,
    secrets: Secrets,
    warm: WarmSpark | None,
) -> RunResult:
    """Write the output, without Spark where that gives the same rows and the process has no session yet."""
    choice, partial_run = choose_engine(run.plan, spec.engine), None
    if problem := find_engine_conflict(run.plan, spec.engine) or find_java_need(choice):
        raise RunError(str(problem), problem.line)
    if not (choice.runs_on_spark or spec.begins_with_spark):
        progress.set_started()
        reporter.report_start(EngineName.LOCAL)
        try:
            with MemoryLimit(spec.memory_bytes, partial(_end_process, reporter)):
                return LocalRunner(run, spec.growth if choice.may_grow else None).write(spec.output.path)
        except NeedsSpark as error:
            if not choice.may_change:
                raise
            _log.info("goes on with Spark", extra={"fields": {"reason": str(error)}})
        except GrownOver as grown:
            partial_run = grown.partial_run
            _log.info("goes on with Spark", extra={"fields": {"reason": str(grown)}})
    if warm is None and (scratch := os.environ.get("TMPDIR")):
        (Path(scratch) / OWN_SPARK).touch()  # for the launcher: a driver that has grown over counts as one with Spark
    from driver.spark_run import write_with_spark  # imports Spark

    return write_with_spark(spec, run, progress, reporter, meter, secrets.mask, warm, partial_run)


def _hide_titles(plan: Plan, spec: RunRequest, secrets: Secrets) -> Plan:
    """Return the plan with the titles of the service's plan, which contain no values of secrets."""
    titles = {step.key: step.title for step in spec.steps}
    steps = (replace(step, title=titles.get(step.key) or secrets.mask(step.title)) for step in plan.steps)
    checks = (replace(call, title=secrets.mask(str(call))) for call in plan.checks)
    return replace(plan, steps=tuple(steps), checks=tuple(checks))


def _build_context(spec: RunRequest, plan: Plan, secrets: Secrets) -> RunContext:
    return RunContext(
        files=FileFolder(spec.output.files or f"{spec.output.path}_files", "files"),
        kept=FileFolder(spec.output.kept, "kept", spec.output.kept_bytes) if spec.output.kept else None,
        cache=make_cache_options(plan.options, _open_page_cache(spec.pages, secrets)),
        fetch=make_fetch_options(
            plan.options,
            spec.fetch.allow_networks,
            CrawlOptions(own_endpoints=spec.fetch.own_endpoints, user_agent=build_user_agent(spec.fetch.contact)),
        ),
        inputs=spec.inputs,
        targets=spec.targets,
        author=spec.execution_id,
        local_folders=spec.local_folders,
        checkpoints=_get_checkpoints(spec),
        limit=spec.limit,
        accepted_at=spec.accepted_at,
        past=spec.past,
        bind=find_own_address(spec.spark.master),
        scratch=spec.scratch,
        known=_find_known_pages(spec),
        selectors=spec.selectors,
        model=spec.model,
        allowance=spec.allowance,
        saves_folder=spec.output.saves,
    )


def _find_known_pages(spec: RunRequest) -> KnownPagesPlace | None:
    if spec.output.known_pages is None or (spec.pages and spec.pages.replay):
        return None
    earlier = spec.targets.get(OUTPUT, Target()).known_pages
    return KnownPagesPlace(spec.job_id, spec.output.known_pages, earlier)


def _get_checkpoints(spec: RunRequest) -> CheckpointFolders | None:
    if spec.checkpoints is None:
        return None
    parts = {"pipeline_yaml", "parameters", "row_transforms", "packages", "limit", "inputs"}
    frozen = spec.model_dump_json(include=parts)
    digest = sha256(f"{describe_engine()}\n{frozen}".encode()).hexdigest()
    return replace(spec.checkpoints, digest=digest)


def _open_page_cache(pages: PageCacheSpec | None, secrets: Secrets) -> CacheOptions:
    if pages is None:
        return CacheOptions(secrets=secrets.values)
    compact_shared_store(pages.folder, pages.keep_seconds, pages.max_bytes)
    return CacheOptions(
        pages.folder, since=pages.trusted_since, secrets=secrets.values, used=pages.used, replay=pages.replay
    )


def _build_report(
    spec: RunRequest, plan: Plan, result: RunResult, run: Run, progress: RunProgress, secrets: Secrets
) -> tuple[RunReport, dict[str, Any]]:
    """Return the report of a completed run, and the fields of the completion payload about it."""
    written, output, target = result.output, plan.output, spec.targets.get(OUTPUT, Target())
    rows = written.rows if written else 0
    if written and not written.table:
        written = replace(written, partition_by=output.partition_by)
    rewrites = output.mode is Mode.HISTORY or (output.mode is Mode.MERGE and output.format == "parquet")
    rewrites = rewrites or (written is not None and written.total_rows is not None)
    earlier = target.known_pages.rstrip("/").rpartition("/")[2] if target.known_pages else None
    report = RunReport(
        engine=run.describe_engines(),
        mode=output.mode,
        output_name=secrets.mask(output.path),
        saves=result.saved,
        output=written,
        merged=MergedVersion(target.version) if rewrites else None,
        changes=result.changes,
        rejected=result.rejected,
        figures=run.build_figures(rows) if written else None,
        pages=asdict(run.page_counts) if run.page_counts else None,
        known_pages=PublishedPages(earlier, run.has_new_pages) if run.page_counts else None,
    )
    return report, {
        **(_describe_output(spec, plan, written) if written else {}),
        "recordsProcessed": max((each.rows for each in run.get_counts().values()), default=rows),
        "recordsOutput": rows,
        "warningCount": len(plan.warnings) + len(progress.list_warnings()),
    }


def _describe_output(spec: RunRequest, plan: Plan, written: WrittenFiles) -> dict[str, Any]:
    table = spec.targets.get(OUTPUT, Target()).location if written.table else None
    return {
        "outputDatasetPath": table or spec.output.path,
        "outputDatasetFormat": plan.output.format,
        "outputDatasetSchema": json.dumps(describe_columns(written.columns)),
        "outputFileSizeBytes": written.bytes,
        "partitionsCount": written.files,
    }


class MemoryLimit:
    """Calls `end` once when this process has more memory than `most` bytes, or half of the machine's without a number.

    It is called in a thread: what the pipeline does at that moment cannot be interrupted otherwise.
    """

    def __init__(self, most: int | None, end: Callable[[str], object]) -> None:
        self._most = most or psutil.virtual_memory().total // 2
        self._end = end
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        process = psutil.Process()
        while not self._is_over.wait(_LOOK_SECONDS):
            if process.memory_info().rss > self._most:
                self._end(
                    f"the execution needed more than {self._most / 1e9:.1f} GB of memory "
                    "(SPINDLE_LOCAL_DRIVER_GIGABYTES): let it run on Spark with spindle: {engine: spark}"
                )
                return
