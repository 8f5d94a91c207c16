"""What the command line prints of texts that others wrote: pages, names, logs."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from cli.follow import follow
from cli.terminal import shown

STEERING = ("\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\u202e", "\r", "\b", "\x00")
BRACKETS = "wgetJoin a[href] [/b]"


@pytest.mark.parametrize("text", STEERING, ids=ascii)
def test_nothing_steers_the_terminal(text: str) -> None:
    assert "\ufffd" in shown(f"a{text}b").plain
    assert shown(f"a{text}b").plain.replace("\ufffd", "").isprintable()


def test_what_is_text_stays() -> None:
    text = "K\u00e4se \u4e2d\u6587 \U0001f600\tx\ny [red]"
    assert shown(text).plain == text


def test_an_execution_is_followed_whatever_its_texts_are() -> None:
    stage = {"state": "COMPLETED", "title": BRACKETS, "pages": 1, "rows": 1, "errors": 0, "seconds": 1.0}
    status: dict[str, Any] = {"status": "COMPLETED", "progress": {"fraction": 1.0, "stages": [stage]}}
    terminal = io.StringIO()
    lines = iter([["line [/b] \x1b[2J"], []])
    console = Console(file=terminal, force_terminal=True, width=120)
    assert follow(console, "Project[/x]", lambda: status, lambda: None, lambda: next(lines)) == status
    told = terminal.getvalue()
    assert all(text in told for text in (BRACKETS, "Project[/x]", "line [/b] \ufffd[2J"))
    assert "\x1b[2J" not in told


def test_without_a_terminal_the_stages_are_told_once_behind_the_log() -> None:
    stage = {"state": "RUNNING", "title": "fetch", "pages": 12, "rows": 34, "errors": 5, "seconds": 1.0}
    running: dict[str, Any] = {"status": "RUNNING", "progress": {"fraction": 0.5, "stages": [stage]}}
    ended = {"status": "COMPLETED", "progress": {"fraction": 1.0, "stages": [stage | {"state": "COMPLETED"}]}}
    states, lines = iter([running, ended]), iter([["one"], ["two"], ["three"]])
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    follow(Console(file=pipe, width=120), "Shop \u2192 rows", lambda: next(states), lambda: None, lambda: next(lines))
    pipe.seek(0)
    told = [line.split() for line in pipe.read().splitlines()]
    headings = ["Stage", "Pages", "Rows", "Errors", "Seconds"]
    assert told == [["one"], ["two"], ["three"], headings, ["completed", "fetch", "12", "34", "5", "1.0"]]


def test_without_a_terminal_and_stages_there_is_the_log_alone() -> None:
    pipe, lines = io.StringIO(), iter([["one"], []])
    follow(Console(file=pipe, width=120), "Shop", lambda: {"status": "FAILED"}, lambda: None, lambda: next(lines))
    assert pipe.getvalue() == "one\n"
