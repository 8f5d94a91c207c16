"""An execution as it goes: its stages and progress, where there is a terminal, and its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from cli.terminal import shown

Json = dict[str, Any]
ENDED = ("COMPLETED", "FAILED")
NOT_STARTED: Json = {"fraction": 0.0, "stages": []}
MARKS = {
    "PENDING": Text("·", "dim"),
    "RUNNING": Spinner("dots"),
    "COMPLETED": Text("✔", "green"),
    "FAILED": Text("✘", "red"),
}
WORDS = {state: state.lower() for state in MARKS}  # a file or pipe may not take the marks


def follow(
    console: Console,
    title: str,
    status_of: Callable[[], Json],
    pause: Callable[[], None],
    log_of: Callable[[], Sequence[str]] = lambda: (),
) -> Json:
    """The status once the execution has ended. `log_of` gives the lines that are new since it was asked last.

    Without a terminal the log comes alone, and behind its last line what each stage did.
    """
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    task = bar.add_task(shown(title).plain, total=1.0)
    view = Live(bar, console=console, refresh_per_second=8) if console.is_terminal else None
    with view or nullcontext():
        while True:
            status = status_of()
            _tell(console, log_of())
            progress: Json = status.get("progress") or NOT_STARTED
            bar.update(task, completed=progress["fraction"])
            if view:
                view.update(Group(_stages(progress["stages"], MARKS), bar))
            if status["status"] in ENDED:
                break
            pause()
    _tell(console, log_of())
    if not view and progress["stages"]:
        console.print(_stages(progress["stages"], WORDS))
    return status


def _tell(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(shown(line))


def _stages(stages: list[Json], marks: Mapping[str, RenderableType]) -> Table:
    table = Table("", "Stage", box=None, padding=(0, 2, 0, 0))
    for heading in ("Pages", "Rows", "Errors", "Seconds"):
        table.add_column(heading, justify="right")
    for stage in stages:
        figures = (str(stage[key] or "") for key in ("pages", "rows", "errors"))
        table.add_row(marks[stage["state"]], shown(stage["title"]), *figures, f"{stage['seconds']:.1f}")
    return table
