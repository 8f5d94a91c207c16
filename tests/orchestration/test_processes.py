"""Pidfiles and local drivers, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration.compute.local import LocalCompute
from orchestration.pidfile import alive, living, living_pid
from tests.support.processes import command_line
from tests.support.service import PATIENCE_SECONDS, wait_until

HOLDER = """
import os, sys, time
from pathlib import Path
from orchestration.pidfile import locked
with locked(Path(sys.argv[1])) as descriptor:
    os.write(descriptor, str(os.getpid()).encode())
    time.sleep(600)
"""


@pytest.fixture
def compute(tmp_path: Path) -> LocalCompute:
    return LocalCompute(tmp_path / "data")


def launch(compute: LocalCompute, folder: Path, environment: dict[str, str]) -> Path:
    """A driver that runs until it is given its spec, which is a pipe; the spec's path."""
    (folder / "data").mkdir(exist_ok=True)
    os.mkfifo(folder / "spec.json")
    compute.launch("one.1", folder / "spec.json", environment, folder / "driver.log")
    return folder / "spec.json"


def test_a_pidfile_tells_who_lives(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)])
    wait_until(lambda: path.exists() and living_pid(path) == holder.pid, PATIENCE_SECONDS)
    assert living(tmp_path) == ("pid",)
    holder.kill()
    holder.wait()
    assert (alive(path), living_pid(path), living(tmp_path), path.exists()) == (False, None, (), False)


def test_a_reused_pid_is_not_taken_for_the_process(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(str(os.getpid()))
    assert living_pid(tmp_path / "pid") is None


def test_a_driver_that_cannot_run_ends_with_its_code_and_log(compute: LocalCompute, tmp_path: Path) -> None:
    spec = launch(compute, tmp_path, {})
    assert compute.observe("one.1").running
    spec.write_text("{}")  # nothing that could be run
    wait_until(lambda: not compute.observe("one.1").running, PATIENCE_SECONDS)
    assert compute.observe("one.1").exit_code not in (0, None)
    assert (tmp_path / "driver.log").read_text()
    assert compute.names() == ()


def test_any_process_can_stop_a_driver(compute: LocalCompute, tmp_path: Path) -> None:
    launch(compute, tmp_path, {})
    stopper = LocalCompute(tmp_path / "data")
    wait_until(lambda: living_pid(tmp_path / "data" / "drivers" / "one.1"), PATIENCE_SECONDS)
    stopper.cancel("one.1")
    wait_until(lambda: not compute.observe("one.1").running, PATIENCE_SECONDS)


def test_a_driver_gets_its_own_secrets_and_none_of_the_service(
    compute: LocalCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPINDLE_SECRET_KEY", "the service's")
    launch(compute, tmp_path, {"SPINDLE_EXECUTION_TOKEN": "the execution's"})
    pidfile = tmp_path / "data" / "drivers" / "one.1"
    wait_until(lambda: command_line(living_pid(pidfile) or 0)[:1] == [sys.executable], PATIENCE_SECONDS)
    environment = Path(f"/proc/{living_pid(pidfile)}/environ").read_text()
    assert ("the execution's" in environment, "the service's" in environment) == (True, False)
    compute.cancel("one.1")
    compute.observe("one.1")


def test_what_was_never_started_is_not_running(compute: LocalCompute) -> None:
    assert not compute.observe("nobody.1").running
    compute.cancel("nobody.1")
    assert compute.names() == ()
