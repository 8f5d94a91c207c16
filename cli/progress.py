"""The progress of `spindle run` on the terminal: a line with counts for every step, selectors and warnings."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from cli.terminal import escape_text, format_count
from driver.progress import RunProgress
from pipelines.contract.progress import StageReport

_UNCUT = Column(no_wrap=True)


@contextmanager
def show_progress(console: Console, progress: RunProgress) -> Generator[None]:
    """Show a line with counts for every step during the run."""
    columns = (
        TextColumn("{task.description}", markup=False, table_column=Column()),
        BarColumn(10),
        TextColumn("{task.fields[counts]}", table_column=_UNCUT),
        TimeElapsedColumn(table_column=_UNCUT),
    )
    ended = threading.Event()
    with Progress(*columns, console=console) as display:
        tasks = {
            stage.key: display.add_task(stage.title, total=None, start=False, counts="")
            for stage in progress.list_stages()
        }

        def refresh() -> None:
            for stage in progress.list_stages():
                _refresh(display, tasks[stage.key], stage)

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


def print_model(console: Console, progress: RunProgress) -> None:
    """Print the pages that every means served, and the calls, tokens and cost of the language model."""
    if (usage := progress.describe_model()) is None:
        return
    served = {"selector": "proven selectors", "metadata": "metadata", "model": "the model", "none": "no means"}
    pages = (
        f"{format_count(usage.pages[means], 'pages')} by {name}"
        for means, name in served.items()
        if usage.pages.get(means)
    )
    calls, tokens = format_count(usage.calls, "calls"), f"{usage.tokens_in + usage.tokens_out:,} tokens"
    console.print(escape_text(", ".join((*pages, f"{calls} of the model, {tokens}, ${usage.cost:.4f}"))))


def print_selectors(console: Console, progress: RunProgress) -> None:
    """Print the selectors that found nothing on some pages, or values that do not fit their columns."""
    for stage in progress.list_stages():
        for found in stage.selectors:
            if 0 < found.empty < found.pages:
                name = found.column or found.selector
                pages = f"{found.empty:,} of {format_count(found.pages, 'pages')}"
                console.print(escape_text(f"{stage.title}: {name} found nothing on {pages}"))
            if unfit := found.unfit:
                values = "1 value that does" if unfit == 1 else f"{unfit:,} values that do"
                console.print(escape_text(f"{stage.title}: {found.column} has {values} not fit its cast"))


def print_warnings(console: Console, progress: RunProgress, known: str = "") -> None:
    """Print the warnings that the `known` message does not contain, and the notes of checks that passed."""
    for warning in progress.list_warnings():
        if warning not in known:
            console.print(escape_text(f"warning: {warning}", "yellow"))
    for note in progress.list_notes():
        console.print(escape_text(note))


def _refresh(display: Progress, task: Any, stage: StageReport) -> None:
    if stage.state == "PENDING":
        return
    display.start_task(task)
    counts = [format_count(getattr(stage, name), name) for name in ("rows", "pages", "errors") if getattr(stage, name)]
    if stage.cached:
        counts.append(f"{stage.cached:,} without a request")
    if stage.pages and stage.seconds >= 1:
        counts.append(f"{stage.pages / stage.seconds:.0f} pages/s")
    display.update(task, counts=", ".join(counts))
    if stage.state == "COMPLETED":
        display.update(task, total=1, completed=1)
