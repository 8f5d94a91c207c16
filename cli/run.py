"""`spindle run`: run a pipeline file without a server."""

from __future__ import annotations

import csv
import json
import logging
import os
import sys
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from cli.buckets import find_bucket_access
from cli.terminal import OWN_NETWORKS, escape_text, format_count, parse_parameters, read_transforms
from driver.failures import describe_failure
from driver.progress import Progress as RunProgress
from pipelines.errors import PipelineError, RunError, summarize_error
from pipelines.fetch.files import FileFolder
from pipelines.page_cache.cache import compact_shared_store
from pipelines.page_cache.options import CacheOptions
from pipelines.pipeline import Pipeline
from pipelines.planning.context import RunContext
from pipelines.planning.model import make_cache_options, make_fetch_options
from pipelines.planning.plan import Plan
from pipelines.spark.jars import require_jars
from pipelines.spark.run import Run
from pipelines.spark.session import start_session
from pipelines.stages import echo
from pipelines.stages.dataframes import to_records

_FORMATS = (".parquet", ".csv", ".json", ".jsonl")
_CACHE_SECONDS, _CACHE_BYTES = 7 * 86400, 10 * 10**9  # limits for pages of earlier runs
_MAX_PRINTED_ROWS = 50
_MAX_CELL_LENGTH = 80
_STOP_SECONDS = 20
_UNCUT = Column(no_wrap=True)

_console = Console(stderr=True)


class _EchoHandler(logging.Handler):
    """Print the rows of echo stages, which a server writes to the execution's log."""

    def emit(self, record: logging.LogRecord) -> None:
        echoed = record.__dict__["fields"]
        name = f"echo {echoed['label'] or ''}".strip()
        text = f"{name} {echoed['number']}: {_format_cell(echoed['row'])}" if echoed["number"] else f"{name}: no rows"
        _console.print(escape_text(text))


def run(
    file: Path,
    output: Path | None,
    parameter: list[str],
    guard: bool,
    limit: int | None = None,
    transforms: Path | None = None,
    cache: Path | None = None,
) -> int:
    """Run the file and print its rows in document order, or write them to `output`; return 1 when it fails.

    `transforms` is a Python file with row transforms. Fresh pages in the folder `cache` are not fetched again.
    """
    try:
        if output is not None:
            _check_output(output)
        own = read_transforms(transforms)
        plan = Pipeline.from_yaml(file.read_text()).plan(parse_parameters(parameter), own)
        for warning in plan.warnings:
            _console.print(f"{file}:{warning.line or 1}: warning: {warning.message}", style="yellow", markup=False)
        if exposed := own.warning():
            _console.print(f"warning: {exposed}", style="yellow", markup=False)
        files = _name_files_folder(file, output)
        context = replace(_create_context(plan, guard, limit, cache), files=files)
        _run(plan, context, output)
    except PipelineError as error:
        for problem in error.problems:
            _console.print(f"{file}:{problem.line or 1}: {problem.message}", style="red", markup=False)
        return 1
    except Exception as error:
        if not isinstance(error, RunError):
            _console.print_exception(max_frames=5)
        _console.print(escape_text(describe_failure(error), "red"))
        return 1
    return 0


def _check_output(path: Path) -> None:
    """Raise RunError when the file cannot be written, so that nothing is crawled in vain; change no existing file."""
    if path.suffix not in _FORMATS:
        raise RunError(f"{path}: the name must end in one of {', '.join(_FORMATS)}")
    try:
        if path.exists():
            path.open("ab").close()
        else:
            TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise RunError(f"{path} cannot be written: {summarize_error(error)}") from error


def _name_files_folder(file: Path, output: Path | None) -> FileFolder:
    """Return the folder for downloaded files: beside the output, or in the current one."""
    path = (output.parent if output else Path()) / f"{(output or file).stem}_files"
    return FileFolder(str(path.absolute()), str(path))


def _create_context(plan: Plan, guard: bool, limit: int | None, cache: Path | None) -> RunContext:
    networks = () if guard else OWN_NETWORKS
    pages = make_cache_options(plan.options, CacheOptions(_open_page_folder(cache) if cache else None))
    return RunContext(fetch=make_fetch_options(plan.options, networks), limit=limit, cache=pages)


def _open_page_folder(cache: Path) -> str:
    """Return the folder for pages within `cache`, without expired pages; raise RunError when it is not writable."""
    folder = cache.absolute() / "spindle-pages"
    try:
        compact_shared_store(str(folder), _CACHE_SECONDS, _CACHE_BYTES)
    except OSError as error:
        raise RunError(f"pages cannot be kept in {cache}: {summarize_error(error)}") from error
    return str(folder)


def _run(plan: Plan, context: RunContext, output: Path | None) -> None:
    access = find_bucket_access(plan)
    with _console.status("fetching Java libraries"):
        require_jars(plan.libraries)
    with _console.status("starting Spark"):
        spark = _start_spark(plan)
    os.environ.update(access)  # not before: Python workers, which run users' functions, have the variables of the start
    echoed = logging.getLogger(echo.__name__)
    echoed.addHandler(_EchoHandler())
    echoed.setLevel(logging.INFO)
    with Run(plan, context) as run, _stop_on_interrupt(spark):
        progress = RunProgress(plan, run)
        progress.set_started()
        try:
            with _show_progress(progress):
                rows = run.collect_ordered(spark)
        except Exception as error:
            _print_warnings(progress, known=str(error))
            raise
        _print_selectors(progress)
        _print_warnings(progress)
        count = rows.count()
        if output is None:
            _print_rows(to_records(rows.limit(_MAX_PRINTED_ROWS), cut=_MAX_CELL_LENGTH), rows.columns, count)
        else:
            _write(rows, output)
            _console.print(f"{format_count(count, 'rows')} in {output}", markup=False)
    spark.stop()


def _start_spark(plan: Plan) -> SparkSession:
    """Start Spark in another thread: in the main one, PySpark's handler of Ctrl-C would interrupt its own calls."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # it logs connections that end; calls raise errors
    started: Future[SparkSession] = Future()
    stderr = os.dup(sys.stderr.fileno())

    def start() -> None:
        try:
            started.set_result(start_session(libraries=plan.libraries))
        except Exception as error:
            started.set_exception(error)

    threading.Thread(target=start, name="start of Spark", daemon=True).start()
    try:
        spark = started.result()
    except KeyboardInterrupt:
        os.dup2(stderr, sys.stderr.fileno())  # the thread, which goes on until the process ends, filters it
        raise
    finally:
        os.close(stderr)
    spark.sparkContext.setLogLevel("FATAL")  # failed calls raise their errors, which are printed without Java's traces
    return spark


@contextmanager
def _stop_on_interrupt(spark: SparkSession) -> Generator[None]:
    """On Ctrl-C, stop Spark before the rest, without its log lines about cancelled jobs."""
    logging.getLogger().addFilter(_is_no_interrupt)
    try:
        yield
    except KeyboardInterrupt:
        # another thread has another connection: this one still waits for the answer to the interrupted call
        thread = threading.Thread(target=_stop_quietly, args=(spark,), daemon=True)
        thread.start()
        thread.join(_STOP_SECONDS)
        raise


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return whether a record is something else than the trace that py4j logs of an interrupted call."""
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


def _stop_quietly(spark: SparkSession) -> None:
    spark.sparkContext.setLogLevel("OFF")
    spark.stop()


def _write(rows: DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(rows.toArrow(), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in to_records(rows)))
    elif path.suffix == ".json":
        path.write_text(json.dumps(to_records(rows), ensure_ascii=False, indent=1) + "\n")
    else:
        _write_csv(rows, path)


def _write_csv(rows: DataFrame, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows.columns)
        writer.writeheader()
        for record in to_records(rows):
            writer.writerow({name: _format_cell(value) for name, value in record.items()})


def _format_cell(value: Any) -> Any:
    """Return a value for a text cell: JSON for nested values."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _print_rows(rows: list[dict[str, Any]], columns: list[str], count: int) -> None:
    table = Table(*columns)
    for row in rows:
        table.add_row(*(escape_text("" if row[name] is None else str(_format_cell(row[name]))) for name in columns))
    Console().print(table, markup=False)
    more = f", the first {len(rows)} shown; -o FILE writes them all" if count > len(rows) else ""
    _console.print(f"{format_count(count, 'rows')}{more}", markup=False)


@contextmanager
def _show_progress(progress: RunProgress) -> Generator[None]:
    """Show a line with counts for each step during the run."""
    columns = (
        TextColumn("{task.description}", markup=False, table_column=Column()),
        BarColumn(10),
        TextColumn("{task.fields[counts]}", table_column=_UNCUT),
        TimeElapsedColumn(table_column=_UNCUT),
    )
    ended = threading.Event()
    with Progress(*columns, console=_console) as display:
        tasks = {
            stage["key"]: display.add_task(stage["title"], total=None, start=False, counts="")
            for stage in progress.list_stages()
        }

        def refresh() -> None:
            for stage in progress.list_stages():
                _refresh(display, tasks[stage["key"]], stage)

        def follow() -> None:
            while not ended.wait(0.3):
                refresh()
            refresh()

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
            progress.finish("COMPLETED")
        finally:
            ended.set()
            thread.join()


def _print_selectors(progress: RunProgress) -> None:
    """Print the selectors that found nothing on some pages."""
    for stage in progress.list_stages():
        for found in stage.get("selectors", ()):
            if 0 < found["empty"] < found["pages"]:
                name = found["column"] or found["selector"]
                pages = f"{found['empty']:,} of {format_count(found['pages'], 'pages')}"
                _console.print(escape_text(f"{stage['title']}: {name} found nothing on {pages}"))


def _print_warnings(progress: RunProgress, known: str = "") -> None:
    """Print the warnings that the `known` message does not contain."""
    for warning in progress.list_warnings():
        if warning not in known:
            _console.print(escape_text(f"warning: {warning}", "yellow"))


def _refresh(display: Progress, task: Any, stage: Mapping[str, Any]) -> None:
    if stage["state"] == "PENDING":
        return
    display.start_task(task)
    counts = [format_count(stage[name], name) for name in ("rows", "pages", "errors") if stage[name]]
    if stage["pages"] and stage["seconds"] >= 1:
        counts.append(f"{stage['pages'] / stage['seconds']:.0f} pages/s")
    display.update(task, counts=", ".join(counts))
    if stage["state"] == "COMPLETED":
        display.update(task, total=1, completed=1)
