"""Printing of untrusted text, such as pages, names and logs, and of an execution's progress."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from cli.execute import _Attempts, _Log, show_progress
from cli.terminal import escape_text

STEERING = ("\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\u202e", "\r", "\b", "\x00")
BRACKETS = "wgetJoin a[href] [/b]"


@pytest.mark.parametrize("text", STEERING, ids=ascii)
def test_control_characters_are_replaced(text: str) -> None:
    assert "\ufffd" in escape_text(f"a{text}b").plain
    assert escape_text(f"a{text}b").plain.replace("\ufffd", "").isprintable()


def test_text_is_unchanged() -> None:
    text = "K\u00e4se \u4e2d\u6587 \U0001f600\tx\ny [red]"
    assert escape_text(text).plain == text


def test_progress_escapes_all_texts() -> None:
    stage = {"key": "s01", "state": "COMPLETED", "title": BRACKETS, "pages": 1, "rows": 1, "errors": 0, "seconds": 1.0}
    status: dict[str, Any] = {"status": "COMPLETED", "progress": {"fraction": 1.0, "stages": [stage]}}
    terminal = io.StringIO()
    lines = iter([["line [/b] \x1b[2J"], []])
    console = Console(file=terminal, force_terminal=True, width=120)
    assert show_progress(console, "Project[/x]", lambda: status, lambda: None, lambda _: next(lines)) == status
    printed = terminal.getvalue()
    assert all(text in printed for text in (BRACKETS, "Project[/x]", "line [/b] \ufffd[2J"))
    assert "\x1b[2J" not in printed


def test_without_a_terminal_stages_follow_the_log() -> None:
    stage = {"key": "s01", "state": "RUNNING", "title": "fetch", "pages": 12, "rows": 34, "errors": 5, "seconds": 1.0}
    running: dict[str, Any] = {"status": "RUNNING", "progress": {"fraction": 0.5, "stages": [stage]}}
    ended = {"status": "COMPLETED", "progress": {"fraction": 1.0, "stages": [stage | {"state": "COMPLETED"}]}}
    states, lines = iter([running, ended]), iter([["one"], ["two"], ["three"]])
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show_progress(
        Console(file=pipe, width=120), "Shop \u2192 rows", lambda: next(states), lambda: None, lambda _: next(lines)
    )
    pipe.seek(0)
    printed = [line.split() for line in pipe.read().splitlines()]
    headings = ["Stage", "Pages", "Rows", "Errors", "Seconds"]
    assert printed == [["one"], ["two"], ["three"], headings, ["completed", "fetch", "12", "34", "5", "1.0"]]


def test_without_a_terminal_and_stages_only_the_log_is_printed() -> None:
    pipe, lines = io.StringIO(), iter([["one"], []])
    show_progress(
        Console(file=pipe, width=120), "Shop", lambda: {"status": "FAILED"}, lambda: None, lambda _: next(lines)
    )
    assert pipe.getvalue() == "one\n"


class FakeServer:
    """A server with one execution, whose first attempt has failed."""

    def get(self, path: str, **query: Any) -> Any:
        if path.endswith("/logs"):
            return {"logs": [f"line of attempt {query['attempt']}"]}
        assert path == "executions/1/attempts"
        sentence = "line 5: check row_count: the output has 2 rows."
        return [{"attempt": 1, "errorMessage": sentence}, {"attempt": 2, "errorMessage": None}]


def test_following_tells_why_an_attempt_failed_and_when_the_next_begins() -> None:
    client: Any = FakeServer()
    log, attempts = _Log(client, "executions/1"), _Attempts(client, "executions/1")
    due = datetime(2026, 11, 27, 12, 30, 5, tzinfo=UTC)
    printed = [
        line
        for attempt, retry_at in ((1, None), (2, due.isoformat()), (2, None))
        for status in [{"attempt": attempt, "retryAt": retry_at}]
        for line in (*attempts.describe_failures(status, log), *log.read_new_lines(attempt))
    ]
    assert printed == [
        "line of attempt 1",
        "Attempt 1 failed: line 5: check row_count: the output has 2 rows. "
        f"Attempt 2 begins at {due.astimezone():%H:%M:%S}.",
        "line of attempt 2",
    ]
    later = _Attempts(client, "executions/1")
    assert [*later.describe_failures({"attempt": 2, "retryAt": None}, log)] == [], "it was failed before"
