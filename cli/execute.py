"""`spindle execute` and `retry`: start a job on a server; with --follow, show progress, log and first rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import rich.progress
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text
from typer import BadParameter

from cli.client import NEGATIVE_RESULT, AtLimit, Client, ClientError, Connection, Unreachable, connect
from cli.jobs import find_execution, find_job
from cli.query import show_output
from cli.requests import print_requests
from cli.terminal import escape_text, parse_parameters
from pipelines.contract.progress import Progress

POLL_SECONDS = 1.0
RECONNECT_SECONDS = 60.0
LOG_LINES = 10_000

Json = dict[str, Any]
FINAL_STATES = ("COMPLETED", "FAILED")
MARKS = {
    "PENDING": Text("·", "dim"),
    "RUNNING": Spinner("dots"),
    "COMPLETED": Text("✔", "green"),
    "FAILED": Text("✘", "red"),
}
WORDS = {state: state.lower() for state in MARKS}  # for files and pipes, whose encoding may lack the marks


def execute(
    connection: Connection,
    job: str,
    parameter: list[str],
    follow: bool,
    wait: int | None = None,
    publish: bool | None = None,
    rows: Path | None = None,
    queue: bool = False,
) -> int:
    """Return 0 when the execution is accepted or, with `follow` or `wait`, completed; else NEGATIVE_RESULT.

    Where there is no room, it is refused, or waits with `queue`.
    """
    console = Console(highlight=False, soft_wrap=True)
    body: Json = {"parameters": parse_parameters(parameter)}
    if publish is not None:
        body["publish"] = publish
    if rows is not None:
        body["rows"] = _read_rows(rows)
    with connect(connection) as client, _explain_limits():
        path = find_job(client, job)
        if wait is not None:
            answer = client.post_and_wait(f"{path}/execute", body, wait, queue=queue)
            return _report(console, client, path, answer, wait)
        execution = client.post(f"{path}/execute", body, queue=queue)["executionId"]
        _print_accepted(console, client, f"{path}/executions/{execution}", "accepted", queue)
        return _follow(console, client, job, f"{path}/executions/{execution}") if follow else 0


@contextmanager
def _explain_limits() -> Generator[None]:
    """Name the option --queue where an execution is refused for the number of those that have not ended."""
    try:
        yield
    except AtLimit as error:
        if error.code not in ("execution-limit", "pool-limit"):
            raise
        raise ClientError(f"{error} With --queue it waits for its turn.") from None


def _print_accepted(console: Console, client: Client, path: str, word: str, queue: bool) -> None:
    """Print that an execution was accepted; of one that may be queued also what it waits for."""
    waits_for = client.get(path)["waitsFor"] if queue else []
    reason = f", and waits for room: {', '.join(waits_for)}" if waits_for else ""
    console.print(f"Execution {path.rpartition('/')[2]} was {word}{reason}.")


def _read_rows(file: Path) -> list[object]:
    from pipelines.stages.given_rows import InvalidRows, parse_rows

    try:
        return parse_rows(file.name, file.read_bytes())
    except InvalidRows as error:
        raise BadParameter(f"{file} cannot be read: {error}", param_hint="--rows") from None


def _report(console: Console, client: Client, path: str, answer: Json, wait: int) -> int:
    """Print the outcome of an execution that was waited for."""
    execution = answer["executionId"]
    if answer["status"] in FINAL_STATES:
        return _print_outcome(console, client, f"{path}/executions/{execution}", answer)
    console.print(f"Execution {execution} has not ended within {wait} s and goes on.")
    return NEGATIVE_RESULT


def retry(connection: Connection, job: str, execution: str | None, follow: bool, queue: bool = False) -> int:
    """Retry a failed execution, by default the job's newest; codes and `queue` as of `execute`."""
    console = Console(highlight=False, soft_wrap=True)
    with connect(connection) as client, _explain_limits():
        path = find_execution(client, job, execution)
        client.post(f"{path}/retry", {}, queue=queue)
        _print_accepted(console, client, path, "accepted again", queue)
        return _follow(console, client, job, path) if follow else 0


def _follow(console: Console, client: Client, title: str, path: str) -> int:
    log, attempts = _Log(client, path), _Attempts(client, path)

    def get_status() -> Json:
        return _retry_while_unreachable(lambda: client.get(path))

    def read_new_lines(status: Json) -> Sequence[str]:
        return [*attempts.describe_failures(status, log), *log.read_new_lines(status["attempt"])]

    try:
        status = show_progress(console, title, get_status, lambda: time.sleep(POLL_SECONDS), read_new_lines)
    except KeyboardInterrupt:
        console.print("No longer following the execution, which goes on.")
        return 130
    return _print_outcome(console, client, path, status)


def _print_outcome(console: Console, client: Client, path: str, status: Json) -> int:
    seconds = status.get("executionTimeSeconds")
    duration = "" if seconds is None else f" after {seconds} s"
    print_requests(console, _read_progress(status).requests)
    if status["status"] == "COMPLETED":
        console.print(f"Completed{duration}.")
        show_output(client, path)
        return 0
    word = "Cancelled" if status["state"] == "CANCELLED" else "Failed"
    console.print(escape_text(f"{word}{duration}: {status.get('errorMessage') or 'the server gives no reason'}"))
    return NEGATIVE_RESULT


class _Log:
    """The log of an execution's current attempt, read in steps."""

    def __init__(self, client: Client, path: str) -> None:
        self._client = client
        self._path = path
        self._attempt = 0
        self._seen: Sequence[str] = ()

    def read_new_lines(self, attempt: int) -> Sequence[str]:
        if attempt != self._attempt:
            self._attempt, self._seen = attempt, ()
        lines = _retry_while_unreachable(
            lambda: self._client.get(f"{self._path}/logs", tail=LOG_LINES, attempt=attempt)["logs"]
        )
        seen, self._seen = self._seen, lines
        if len(lines) < LOG_LINES or not seen:
            return lines[len(seen) :]
        # the server returns only the end of a longer log: find the last line of the previous answer in it
        start = next((at for at in range(len(lines), 0, -1) if lines[at - 1] == seen[-1]), 0)
        return lines[start:]


class _Attempts:
    """The attempts of an execution that has automatic retries."""

    def __init__(self, client: Client, path: str) -> None:
        self._client = client
        self._path = path
        self._told: int | None = None

    def describe_failures(self, status: Json, log: _Log) -> Sequence[str]:
        """Return the rest of the log of every attempt that has ended, why it failed, and when the next begins."""
        told, self._told = self._told, status["attempt"] - 1
        if told is None or told == self._told:  # those before the first look are not this command's
            return ()
        attempts = _retry_while_unreachable(lambda: self._client.get(f"{self._path}/attempts"))
        lines: list[str] = []
        for each in attempts[told : self._told]:
            number = each["attempt"]
            reason = (each["errorMessage"] or "the server gives no reason").rstrip(".")
            following = f"Attempt {number + 1} has begun."
            if status["retryAt"] and number == self._told:
                following = f"Attempt {number + 1} begins at {_format_time(status['retryAt'])}."
            lines += [*log.read_new_lines(number), f"Attempt {number} failed: {reason}. {following}"]
        return lines


def _format_time(text: str) -> str:
    """Return a time of the server as this machine's clock shows it."""
    return datetime.fromisoformat(text).astimezone().strftime("%H:%M:%S")


def _retry_while_unreachable(request: Callable[[], Any]) -> Any:
    """Repeat the request for a minute while the server does not answer: it may be restarting."""
    deadline = time.monotonic() + RECONNECT_SECONDS
    while True:
        try:
            return request()
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_SECONDS)


def show_progress(
    console: Console,
    title: str,
    get_status: Callable[[], Json],
    pause: Callable[[], None],
    read_new_lines: Callable[[Json], Sequence[str]] = lambda _: (),
) -> Json:
    """Show stages, progress and new log lines until the execution ends; return its final status.

    Without a terminal only the log is printed, followed by a table of the stages.
    """
    bar = rich.progress.Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    task = bar.add_task(escape_text(title).plain, total=1.0)
    view = Live(bar, console=console, refresh_per_second=8) if console.is_terminal else None
    with view or nullcontext():
        while True:
            status = get_status()
            _print_lines(console, read_new_lines(status))
            progress = _read_progress(status)
            bar.update(task, completed=progress.fraction)
            if view:
                view.update(Group(_create_stage_table(progress, MARKS), bar))
            if status["status"] in FINAL_STATES:
                break
            pause()
    _print_lines(console, read_new_lines(status))
    if not view and progress.stages:
        console.print(_create_stage_table(progress, WORDS))
    return status


def _print_lines(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(escape_text(line))


def _read_progress(status: Json) -> Progress:
    return Progress.from_report(status.get("progress") or {})


def _create_stage_table(progress: Progress, marks: Mapping[str, RenderableType]) -> Table:
    table = Table("", "Stage", box=None, padding=(0, 2, 0, 0))
    for heading in ("Pages", "Rows", "Errors", "Seconds"):
        table.add_column(heading, justify="right")
    if seconds := progress.start_seconds:
        is_over = any(stage.state != "PENDING" for stage in progress.stages)
        table.add_row(marks["COMPLETED" if is_over else "RUNNING"], "start of Spark", "", "", "", f"{seconds:.1f}")
    for stage in progress.stages:
        figures = (str(number or "") for number in (stage.pages, stage.rows, stage.errors))
        table.add_row(marks[stage.state], escape_text(stage.title), *figures, f"{stage.seconds:.1f}")
    return table
