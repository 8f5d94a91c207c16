"""The processes that a test started, and whether they still run; they may end while one looks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def descendants(pid: int) -> list[int]:
    """The processes below `pid`, the oldest first."""
    try:
        children = psutil.Process(pid).children(recursive=True)
        return [child.pid for child in sorted(children, key=lambda child: (child.create_time(), child.pid))]
    except psutil.NoSuchProcess:
        return []


def running(pids: Iterable[int]) -> set[int]:
    """Those that have not ended, waited for or not."""
    return {pid for pid in pids if _runs(pid)}


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def list_processes_of(data: Path) -> list[str]:
    """Return the commands of all processes that have this data folder in their arguments, environment or place."""
    return [" ".join(command_line(pid)) for pid in psutil.pids() if pid != os.getpid() and _mentions(pid, str(data))]


def list_processes_of_container(container: str) -> list[int]:
    """The processes of a container of this machine; none where it is another machine's."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if container in path.read_text():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def _mentions(pid: int, text: str) -> bool:
    with suppress(OSError, psutil.NoSuchProcess):
        named = any(text.encode() in Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
        if named or text in os.readlink(f"/proc/{pid}/cwd"):
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
