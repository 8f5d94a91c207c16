"""Environments: made once for all, whole or not at all, also by several processes and by ones that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.environments.folders import UNUSED_SECONDS, EnvironmentStore
from pipelines.environments.packages import lock_packages
from pipelines.environments.uv import InstallFailed
from tests.support.service import CLONE, wait_until
from tests.support.wheels import write_library

# makes an environment of two files, and waits between them until the file `go` is there
MAKING = """
import sys, time
from pathlib import Path
from pipelines.environments.folders import EnvironmentStore

root = Path(sys.argv[1])

def install(folder, lock):
    with (root.parent / "log").open("a") as log:
        log.write("made\\n")
    (folder / "first").touch()
    while not (root.parent / "go").exists():
        time.sleep(0.01)
    (folder / "second").touch()

print(*sorted(each.name for each in EnvironmentStore.open(root, None).prepare("key", install).iterdir()))
"""


@pytest.fixture
def store(tmp_path: Path) -> EnvironmentStore:
    folder = tmp_path / "wheels"
    write_library(folder, "adder", "def add(n): return n + 1\n")
    return EnvironmentStore.open(tmp_path / "store", str(folder))


def start_making(root: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(CLONE)}
    command = [sys.executable, "-c", MAKING, str(root)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def list_environments(store: EnvironmentStore) -> list[str]:
    return sorted(each.name for each in store.root.iterdir() if each.is_dir() and each != store.index.cache)


def test_two_processes_make_an_environment_once(store: EnvironmentStore, tmp_path: Path) -> None:
    makers = [start_making(store.root) for _ in range(2)]
    wait_until(lambda: (tmp_path / "log").exists(), 30)
    assert not (store.root / "key").exists()
    (tmp_path / "go").touch()
    assert [maker.communicate(timeout=30)[0] for maker in makers] == ["first second\n"] * 2
    assert (tmp_path / "log").read_text() == "made\n"
    assert list_environments(store) == ["key"]


def test_a_killed_process_leaves_nothing_half_made(store: EnvironmentStore, tmp_path: Path) -> None:
    killed = start_making(store.root)
    wait_until(lambda: any(store.root.glob("key.*.making/first")), 30)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (store.root / "key").exists()
    (tmp_path / "go").touch()
    assert start_making(store.root).communicate(timeout=30)[0] == "first second\n"
    assert list_environments(store) == ["key"]


def test_a_lock_is_installed_once_and_a_failed_install_leaves_nothing(store: EnvironmentStore) -> None:
    lock = lock_packages(["adder==1.0"], store.index)
    folder = store.install_lock(lock)
    assert (folder / "adder.py").is_file()
    assert folder.stat().st_mode & 0o777 == 0o755
    assert store.install_lock(lock) == folder
    with pytest.raises(InstallFailed, match="adder"):
        store.install_lock(f"{lock.partition('sha256:')[0]}sha256:{'0' * 64}\n")
    assert list_environments(store) == [folder.name]


def test_environments_that_nobody_uses_are_removed(store: EnvironmentStore) -> None:
    old, recent = (store.prepare(name, lambda folder, lock: None) for name in ("old", "recent"))
    at = time.time() - UNUSED_SECONDS - 60
    os.utime(old, (at, at))
    store.prepare("new", lambda folder, lock: None)
    assert list_environments(store) == ["new", "recent"]
    assert recent.is_dir()
