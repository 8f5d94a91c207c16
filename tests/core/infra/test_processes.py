"""A supervised process that ends is started again, after a pause that grows, and that is said."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psutil
import pytest

from core.infra import processes
from core.infra.process_log import ProcessLog
from core.infra.processes import Child, start_command
from tests.support.processes import running


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ProcessLog]:
    with closing(ProcessLog(tmp_path / "log")) as log:
        yield log


def test_a_child_that_ends_is_started_again_with_growing_pauses(
    tmp_path: Path, log: ProcessLog, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(processes, "LONGEST_PAUSE", 0.03)
    program = "import pathlib; p = pathlib.Path('starts'); p.open('a').write('x'); print('hello'); raise SystemExit(7)"

    async def supervise() -> None:
        child = Child("part", partial(start_command, [sys.executable, "-c", program], os.environ, tmp_path), log)
        keeping = asyncio.create_task(child.keep_running())
        while len(starts.read_text() if starts.exists() else "") < 4:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        await child.stop(5)
        await keeping

    starts = tmp_path / "starts"
    asyncio.run(supervise())
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "part     | hello"
    again = [line.rpartition(" in ")[2] for line in said if "exited with code 7; restarting" in line]
    assert again[:3] == ["0.01 s", "0.02 s", "0.03 s"]


def test_a_child_is_started_again_while_its_own_children_keep_its_output(
    tmp_path: Path, log: ProcessLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher starts processes that outlive it."""
    monkeypatch.setattr(processes, "FIRST_PAUSE", 0.01)
    program = """
import os, pathlib, time
if os.fork() == 0:
    time.sleep(60)
    os._exit(0)
with pathlib.Path("starts").open("a") as starts:
    starts.write("x")
time.sleep(60)
"""

    async def supervise() -> None:
        child = Child("part", partial(start_command, [sys.executable, "-c", program], os.environ, tmp_path), log)
        keeping = asyncio.create_task(child.keep_running())
        await wait_for_starts(1)
        assert child._process is not None  # pyright: ignore[reportPrivateUsage]
        forked = [each.pid for each in psutil.Process(child._process.pid).children()]  # pyright: ignore[reportPrivateUsage]
        os.kill(child._process.pid, signal.SIGKILL)  # pyright: ignore[reportPrivateUsage]
        await wait_for_starts(2)
        assert forked
        assert running(forked) == {*forked}, "they still have its output"
        for pid in forked:
            os.kill(pid, signal.SIGKILL)
        await child.stop(5)
        await keeping

    async def wait_for_starts(count: int) -> None:
        starts = tmp_path / "starts"
        while len(starts.read_text() if starts.exists() else "") < count:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)

    asyncio.run(supervise())


def test_the_terminal_shows_warnings_and_the_file_all_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = ['{"level": "warning"}', "Traceback (most recent call last):", '{"level": 1', "{}"]
    quiet = [
        '{"level": "info", "event": "request"}',
        "2026-01-01 - dagster - INFO - started",
        "2026-01-01 - dagster-webserver - \x1b[34mINFO\x1b[0m - serving",
        '{"level": "debug"}',
    ]
    for verbose, printed in ((False, shown), (True, [*shown, *quiet])):
        with closing(ProcessLog(tmp_path / "log", verbose)) as log:
            for line in (*shown, *quiet):
                log.write("part", line)
        assert [line.partition(" | ")[2] for line in capsys.readouterr().out.splitlines()] == printed
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 2 * len([*shown, *quiet])
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_all_lines_are_objects_of_one_form_which_a_container_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = [
        '{"timestamp": "then", "level": "info", "event": "request", "request": "r-1"}',
        "2026-01-01 10:00:00 +0000 - dagster.daemon - ERROR - it failed",
        "2026-01-01 10:00:00 +0000 - dagster-webserver - \x1b[34mINFO\x1b[0m - serving",
        "ValueError: é",
    ]
    with closing(ProcessLog(tmp_path / "log", log_format="json")) as log:
        for line in written:
            log.write("part", line)
        log.tell("\nSpindle is ready.\n")
    text = (tmp_path / "log").read_text()
    assert capsys.readouterr().out == text
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0] == {"timestamp": "then", "level": "info", "process": "part", "event": "request", "request": "r-1"}
    assert all(line.pop("timestamp") for line in lines)
    assert lines[1:] == [
        {"level": "error", "process": "part", "event": "it failed", "logger": "dagster.daemon"},
        {"level": "info", "process": "part", "event": "serving", "logger": "dagster-webserver"},
        {"level": "warning", "process": "part", "event": "ValueError: é"},
        {"level": "info", "process": "spindle", "event": "Spindle is ready."},
    ]
