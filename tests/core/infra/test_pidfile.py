"""Pidfiles, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from core.infra.pidfile import is_alive, list_alive, read_alive_pid
from tests.support.service import PATIENCE_SECONDS, wait_until

HOLDER = """
import os, sys, time
from pathlib import Path
from core.infra.pidfile import hold_pidfile
with hold_pidfile(Path(sys.argv[1])) as descriptor:
    os.write(descriptor, str(os.getpid()).encode())
    time.sleep(600)
"""


def test_a_pidfile_shows_whether_its_process_is_alive(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)])
    wait_until(lambda: path.exists() and read_alive_pid(path) == holder.pid, PATIENCE_SECONDS)
    assert list_alive(tmp_path) == ("pid",)
    holder.kill()
    holder.wait()
    assert (is_alive(path), read_alive_pid(path), list_alive(tmp_path), path.exists()) == (False, None, (), False)


def test_a_reused_pid_is_not_taken_for_the_process(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(str(os.getpid()))
    assert read_alive_pid(tmp_path / "pid") is None
