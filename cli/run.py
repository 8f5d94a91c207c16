"""`spindle run`: run a pipeline file without a server."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from cli.buckets import find_bucket_access
from cli.fetching import read_crawl_options
from cli.interruption import EXIT_CODE, describe_stop, explain_loss, stop_on_interrupt
from cli.known_pages import keep_known_pages, open_known_pages
from cli.output import CollectedRows, OutputFile, plan_output
from cli.progress import print_model, print_selectors, print_warnings, show_progress
from cli.requests import print_requests
from cli.row_files import format_cell, write_rows
from cli.terminal import OWN_NETWORKS, escape_text, find_inputs, format_count, parse_parameters, read_transforms
from driver.failures import describe_failure
from driver.progress import RunProgress
from pipelines.contract.context import RunContext
from pipelines.engine.options import make_cache_options, make_fetch_options
from pipelines.engine.partial_run import GrownOver
from pipelines.engine.run import Run
from pipelines.errors import NeedsSpark, PipelineError, RunError, summarize_error
from pipelines.fetch.files import FileFolder
from pipelines.language.engines import Growth
from pipelines.language.formats import Mode
from pipelines.language.json_values import list_records
from pipelines.local.engine_choice import choose_engine, find_engine_conflict, find_java_need
from pipelines.local.runner import LocalRunner
from pipelines.page_cache.cache import compact_shared_store
from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from pipelines.planning.plan import Plan
from pipelines.stages import echo

_CACHE_SECONDS, _CACHE_BYTES = 7 * 86400, 10 * 10**9  # limits for pages of earlier runs

_console = Console(stderr=True)
MAX_PRINTED_ROWS = 50
_MAX_CELL_LENGTH = 80


class _EchoHandler(logging.Handler):
    """Print the rows of echo stages, which a server writes to the execution's log."""

    def emit(self, record: logging.LogRecord) -> None:
        echoed = record.__dict__["fields"]
        name = f"echo {echoed['label'] or ''}".strip()
        text = f"{name} {echoed['number']}: {format_cell(echoed['row'])}" if echoed["number"] else f"{name}: no rows"
        _console.print(escape_text(text))


def run(
    file: Path,
    output: OutputFile | None,
    parameter: list[str],
    guard: bool,
    limit: int | None = None,
    transforms: Path | None = None,
    cache: Path | None = None,
    selectors: Path | None = None,
    rows: Path | None = None,
) -> int:
    """Run the file and print its rows in document order, or write them to `output`; return 1 when it fails.

    An interrupted run writes the rows of the pages so far and returns 130.
    `transforms` is a Python file with row transforms. Fresh pages in the folder `cache` are not fetched again; an
    incremental pipeline keeps there what it knows, and a prompt its proven selectors. `selectors` is a
    lock file of proven selectors, which stay as they are. `rows` is a file for load_rows.
    """
    try:
        if output is not None:
            output.check()
        pipeline = Pipeline.from_yaml(file.read_text())
        own = pipeline.add_packages(read_transforms(transforms))
        values = parse_parameters(parameter)
        pipeline.check_names(values)
        plan = pipeline.plan(values, own)
        for warning in plan.warnings:
            _console.print(f"{file}:{warning.line or 1}: warning: {warning.message}", style="yellow", markup=False)
        if exposed := own.warning():
            _console.print(f"warning: {exposed}", style="yellow", markup=False)
        plan, unused = plan_output(plan, output) if plan.output.path or not plan.options.incremental else (plan, [])
        for warning in unused:
            _console.print(f"{file}: warning: {warning}", style="yellow", markup=False)
        files = _name_files_folder(file, output.path if output else None)
        context = replace(_create_context(plan, guard, limit, cache), files=files, inputs=find_inputs(plan, rows))
        _check_merge(plan)
        _check_tables(plan, context)
        context = replace(context, locked_selectors=selectors)
        if cache:
            folder = str(cache.absolute() / "spindle-selectors")
            context = replace(context, selectors=folder, has_own_selectors=True)
        if cache and plan.options.incremental:
            context = replace(context, known=open_known_pages(cache, file))
        gc.freeze()
        gc.enable()
        return _run(plan, context, output)
    except PipelineError as error:
        for problem in error.problems:
            _console.print(f"{file}:{problem.line or 1}: {problem.message}", style="red", markup=False)
        return 1
    except ValidationError:  # of a setting
        raise
    except Exception as error:
        if not isinstance(error, RunError):
            _console.print_exception(max_frames=5)
        _console.print(escape_text(describe_failure(error), "red"))
        return 1


def _name_files_folder(file: Path, output: Path | None) -> FileFolder:
    """Return the folder for downloaded files: beside the output, or in the current one."""
    path = (output.parent if output else Path()) / f"{(output or file).stem}_files"
    return FileFolder(str(path.absolute()), str(path), has_names=True)


def _create_context(plan: Plan, guard: bool, limit: int | None, cache: Path | None) -> RunContext:
    networks = () if guard else OWN_NETWORKS
    pages = make_cache_options(plan.options, CacheOptions(_open_page_folder(cache) if cache else None))
    return RunContext(fetch=make_fetch_options(plan.options, networks, read_crawl_options()), limit=limit, cache=pages)


def _open_page_folder(cache: Path) -> str:
    """Return the folder for pages within `cache`, without expired pages; raise RunError when it is not writable."""
    folder = cache.absolute() / "spindle-pages"
    try:
        compact_shared_store(str(folder), _CACHE_SECONDS, _CACHE_BYTES)
    except OSError as error:
        raise RunError(f"pages cannot be kept in {cache}: {summarize_error(error)}") from error
    return str(folder)


def _run(plan: Plan, context: RunContext, output: OutputFile | None) -> int:
    """Run the plan and write or print its rows; return the exit code."""
    access = find_bucket_access(plan)
    _print_echoes()
    with Run(plan, context) as run:
        progress = RunProgress(plan, run)
        stop = threading.Event()
        try:
            collected = _collect_rows(plan, run, progress, access, output, stop)
        except Exception as error:
            print_requests(_console, progress.list_requests())
            print_model(_console, progress)
            print_warnings(_console, progress, known=str(error))
            if not (output and stop.is_set() and isinstance(error, RunError)):
                raise
            _console.print(escape_text(str(error), "red"))
            _console.print(describe_stop(output, 0, plan, context), markup=False)
            return EXIT_CODE
        rows, count = collected.rows, collected.count
        print_requests(_console, progress.list_requests())
        print_model(_console, progress)
        print_selectors(_console, progress)
        print_warnings(_console, progress)
        if output and stop.is_set():
            if count:
                write_rows(rows, output.path, output.append)
            _console.print(describe_stop(output, count, plan, context), markup=False)
        elif output:
            write_rows(rows, output.path, output.append)
            added = "added to" if output.append else "in"
            _console.print(f"{format_count(count, 'rows')} {added} {output.path}", markup=False)
            if collected.rejected is not None:
                aside = output.path.with_stem(f"{output.path.stem}_rejected")
                write_rows(collected.rejected, aside)
                _console.print(
                    f"{format_count(collected.rejected.num_rows, 'rows')} set aside in {aside}", markup=False
                )
        elif plan.output.path is None:
            print_rows(_console, rows, count)
        if plan.output.path is not None and not stop.is_set():
            _console.print(f"{format_count(count, 'rows')} written to {plan.output.path}", markup=False)
        if run.page_counts is not None:
            _console.print(f"{run.page_counts}", markup=False)
        if run.has_new_pages and context.known:
            keep_known_pages(context.known)
    return EXIT_CODE if stop.is_set() else 0


def _check_merge(plan: Plan) -> None:
    """Raise RunError for a merge into local files: only the service has the earlier rows as a whole."""
    output = plan.output
    if output.path and output.mode is Mode.MERGE and output.format == "parquet":
        raise RunError(
            f"spindle run cannot merge into '{output.path}': leave the path out, and new and changed rows are printed, "
            "or are added to a file by -o FILE --append"
        )


def _check_tables(plan: Plan, context: RunContext) -> None:
    """Raise RunError for tables that are no local files, before Spark is started."""
    for step in plan.steps:
        for name in step.stage.list_tables() if step.stage else ():
            try:
                context.find_table(name)
            except RunError as error:
                raise RunError(f"{step.location}: {error}", step.line) from None


def _print_echoes() -> None:
    echoed = logging.getLogger(echo.__name__)
    echoed.addHandler(_EchoHandler())
    echoed.setLevel(logging.INFO)


def _collect_rows(
    plan: Plan,
    run: Run,
    progress: RunProgress,
    access: Mapping[str, str],
    output: OutputFile | None,
    stop: threading.Event,
) -> CollectedRows:
    """Return the output rows, as many as are needed: without Spark where that gives the same.

    The first Ctrl-C sets `stop` where there is an output, and the rows are those of the pages so far.
    """
    choice, partial_run = choose_engine(plan), None
    most = None if output else MAX_PRINTED_ROWS
    if conflict := find_engine_conflict(plan) or find_java_need(choice):
        raise PipelineError([conflict])
    if not choice.runs_on_spark:
        progress.set_started()
        try:
            with show_progress(_console, progress), stop_on_interrupt(_console, stop if output else None):
                runner = LocalRunner(run, Growth() if choice.may_grow else None, stop)
                rows = runner.collect()
            return CollectedRows(rows if most is None else rows.slice(0, most), rows.num_rows, runner.rejected)
        except NeedsSpark as error:
            if not choice.may_change:
                raise
            _console.print(escape_text(f"{error}"))
        except GrownOver as grown:
            if stop.is_set():
                raise RunError("the rows need Spark, which a stopped run does not start") from None
            partial_run = grown.partial_run
    from cli.spark import collect_rows, open_spark

    with explain_loss(_console, output, run.context), open_spark(_console, plan, access) as spark:
        progress.set_started()
        with show_progress(_console, progress):
            return collect_rows(spark, run, partial_run, most)


def print_rows(console: Console, rows: pa.Table, count: int) -> None:
    """Print the first rows of `count`."""
    columns = rows.column_names
    table = Table(*columns)
    for row in list_records(rows, _MAX_CELL_LENGTH):
        table.add_row(*(escape_text("" if row[name] is None else str(format_cell(row[name]))) for name in columns))
    Console().print(table, markup=False)
    more = f", the first {rows.num_rows} shown; -o FILE writes them all" if count > rows.num_rows else ""
    console.print(f"{format_count(count, 'rows')}{more}", markup=False)
