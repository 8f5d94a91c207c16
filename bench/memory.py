"""Memory of processes, sampled while they work (Linux)."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
EVERY_SECONDS = 0.5

Samples = list[dict[str, int]]


@contextmanager
def sampled() -> Generator[Samples]:
    """Every half a second the resident bytes of this process's descendants: the JVM's and its Python workers'."""
    samples: Samples = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(EVERY_SECONDS):
            samples.append(resident(os.getpid()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()


def resident(ancestor: int) -> dict[str, int]:
    """Resident bytes of the JVMs and of the Python workers among the descendants of a process."""
    totals = {"jvm": 0, "workers": 0}
    parents = {
        int(each.name): parent for each in Path("/proc").iterdir() if each.name.isdigit() and (parent := _parent(each))
    }
    for process in parents:
        if _descends(process, ancestor, parents):
            kind = "jvm" if _name(process) == "java" else "workers"
            totals[kind] += _resident(process)
    return totals


def _descends(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process in parents:
        process = parents[process]
        if process == ancestor:
            return True
    return False


def _parent(folder: Path) -> int | None:
    try:
        return int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES
    except (FileNotFoundError, ProcessLookupError):
        return 0
