"""Messages of Dagster Pipes: in a file, or with a mark among the lines of the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dagster_pipes import PipesMessage

from driver.messages import MARKED_LINE, DriverMessageWriter

MARK = "0123456789abcdef" * 4
MESSAGE: PipesMessage = {"__dagster_pipes_version": "0.1", "method": "closed", "params": {"text": "two\nlines"}}


def test_a_mark_puts_messages_among_the_lines_of_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    with DriverMessageWriter().open({"mark": MARK}) as channel:
        channel.write_message(MESSAGE)
    (line,) = capfd.readouterr().err.splitlines()
    found = MARKED_LINE.fullmatch(line.encode())
    assert (found[1].decode(), json.loads(found[2])) == (MARK, MESSAGE)


def test_without_a_mark_they_are_in_a_file(tmp_path: Path) -> None:
    with DriverMessageWriter().open({"path": str(tmp_path / "messages")}) as channel:
        channel.write_message(MESSAGE)
    assert json.loads((tmp_path / "messages").read_text()) == MESSAGE
