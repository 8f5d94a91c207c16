"""Ctrl-C in `spindle run -o`: the first one ends the crawl so that its rows can be written, the second one the run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console

from cli.output import OutputFile
from cli.terminal import format_count
from pipelines.contract.context import RunContext
from pipelines.planning.plan import Plan
from pipelines.planning.stage import Export

EXIT_CODE = 130  # of a process that SIGINT has ended


@contextmanager
def stop_on_interrupt(console: Console, stop: threading.Event | None) -> Generator[None]:
    """Set `stop` at the first Ctrl-C; a later one raises KeyboardInterrupt, as every one does without `stop`."""
    if stop is None:
        yield
        return

    def handle(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        with suppress(RuntimeError):  # the signal has interrupted the print of a line
            console.print("Stopping to write the rows of the pages so far; Ctrl-C again drops them", style="yellow")

    earlier = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)


@contextmanager
def explain_loss(console: Console, output: OutputFile | None, context: RunContext) -> Generator[None]:
    """On Ctrl-C in a run on Spark, print that no row is written, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if output:
            loss = f"With Spark, rows are written at the end alone: {output.path} is as it was."
            console.print(f"{loss} {_describe_next_run(context)}", markup=False)
        raise


def describe_stop(output: OutputFile, rows: int, plan: Plan, context: RunContext) -> str:
    """Return what an interrupted run has written to its file, and how to go on."""
    if rows:
        where = f"{'added to' if output.append else 'in'} {output.path}"
        done = f"{format_count(rows, 'rows')} {'is' if rows == 1 else 'are'} {where}"
    else:
        done = f"no row was done, and {output.path} is as it was"
    writes_more = plan.output.path or any(isinstance(step.stage, Export) for step in plan.steps)
    left_out = [*(["no check was made"] if plan.checks else ()), *(["nothing else is written"] if writes_more else ())]
    sentence = "; ".join((f"Stopped: {done}", *left_out))
    if rows and plan.options.incremental and context.known:
        append = "" if output.append else " with --append"
        return f"{sentence}. To go on, run it again{append}: pages whose rows are written are left out."
    return f"{sentence}. {_describe_next_run(context)}"


def _describe_next_run(context: RunContext) -> str:
    if context.cache.shared:
        return "To go on, run it again: pages in the folder of --cache are used while they are fresh, else revalidated."
    return "To go on, run it again; with --cache FOLDER, a run that is stopped keeps its pages for the next one."
