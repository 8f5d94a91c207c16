"""A fork of a warm parent is like a new process: own environment, folder and output, nothing else that is open."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from core.infra import processes
from core.infra.forks import Program, WarmParent
from core.infra.process_log import ProcessLog
from core.infra.processes import Child
from tests.support.processes import command_line
from tests.support.service import PATIENCE_SECONDS

MODULE = "warm_part"
PART = """
import json, logging.config, os, sys, time
from pathlib import Path
FOLDER = Path(__file__).parent
with (FOLDER / "imports").open("a") as imports:
    imports.write("x")

def main():
    paths = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd") if int(each) > 2]
    opened = [os.readlink(each) for each in paths if os.path.islink(each)]
    with (FOLDER / "starts").open("a") as starts:
        logging.config.dictConfig({"version": 1})  # closes the handlers of the parent
        print(json.dumps({"pid": os.getpid(), "argv": sys.argv, "environment": dict(os.environ),
                          "folder": os.getcwd(), "opened": opened}), file=starts)
    print("hello from", sys.argv[1])
    if sys.argv[1] == "ends":
        sys.exit(7)
    time.sleep(600)
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ProcessLog]:
    with closing(ProcessLog(tmp_path / "log")) as log:
        yield log


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / f"{MODULE}.py").write_text(PART)
    (tmp_path / "work").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(processes, "FIRST_PAUSE", 0.01)
    yield tmp_path
    sys.modules.pop(MODULE, None)


def keep(folder: Path, log: ProcessLog, argument: str, act: Callable[[], Awaitable[None]]) -> None:
    """Keep a fork of the part running until `act` returns."""

    async def supervise() -> None:
        parent = WarmParent({"ONLY": "this"}, folder / "work")
        await parent.import_modules(MODULE)
        child = Child("part", partial(parent.start, Program(MODULE, (argument,))), log)
        running = asyncio.create_task(child.keep_running())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await act()
        await child.stop(PATIENCE_SECONDS)
        await running

    asyncio.run(supervise())


def list_starts(folder: Path) -> list[dict[str, object]]:
    starts = folder / "starts"
    return [json.loads(line) for line in starts.read_text().splitlines()] if starts.exists() else []


async def wait_for_starts(folder: Path, count: int) -> None:
    while len(list_starts(folder)) < count:  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)


def test_a_fork_has_what_a_new_process_has(folder: Path, log: ProcessLog) -> None:
    async def act() -> None:
        await wait_for_starts(folder, 1)
        (start,) = list_starts(folder)
        pid = start.pop("pid")
        assert isinstance(pid, int)
        assert os.getsid(pid) == pid
        assert [word for word in command_line(pid) if word] == ["spindle", MODULE]
        opened = start.pop("opened")
        assert isinstance(opened, list)
        assert {*opened} == {os.devnull}
        expected = {"argv": [MODULE, "stays"], "environment": {"ONLY": "this"}, "folder": str(folder / "work")}
        assert start == expected

    keep(folder, log, "stays", act)


def test_a_fork_that_is_killed_or_ends_is_forked_again(
    folder: Path, log: ProcessLog, capsys: pytest.CaptureFixture[str]
) -> None:
    async def act() -> None:
        await wait_for_starts(folder, 1)
        pid = list_starts(folder)[0]["pid"]
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)
        await wait_for_starts(folder, 2)

    keep(folder, log, "stays", act)
    keep(folder, log, "ends", partial(wait_for_starts, folder, 4))
    assert (folder / "imports").read_text() == "x"
    printed = capsys.readouterr().out
    assert "part     | exited with code -9; restarting" in printed
    assert "part     | exited with code 7; restarting" in printed
    assert "part     | hello from stays" in printed


def test_nothing_is_forked_while_a_thread_runs(folder: Path, log: ProcessLog) -> None:
    async def supervise() -> list[str]:
        parent, order = WarmParent({}, folder / "work"), list[str]()
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def block() -> None:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0.1), loop).result()
            order.append("thread")

        called = asyncio.create_task(parent.call_in_thread(block))
        await begun.wait()
        fork = await parent.start(Program(MODULE, ("ends",)), 2)
        order.append("fork")
        assert await fork.wait() == 7
        await called
        return order

    assert asyncio.run(supervise()) == ["thread", "fork"]
