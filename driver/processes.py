"""What the driver's processes use, as the operating system counts it: the driver, its JVM, and the Python workers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Sample:
    """CPU seconds since the start and bytes of memory now; workers are all that the JVM has started, browsers too."""

    driver_cpu: float
    worker_cpu: float
    driver_memory: int
    worker_memory: int


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    cpu: float


def sample(root: int) -> Sample | None:
    """Sums over `root` and its descendants; None on a system without /proc."""
    processes = dict(_processes())
    if root not in processes:
        return None
    driver = {root} | {pid for pid, each in processes.items() if each.parent == root}
    workers = _below(driver, processes)
    return Sample(
        driver_cpu=sum(processes[pid].cpu for pid in driver),
        worker_cpu=sum(processes[pid].cpu for pid in workers),
        driver_memory=sum(map(_resident, driver)),
        worker_memory=sum(map(_proportional, workers)),
    )


def _processes() -> Iterator[tuple[int, _Process]]:
    """Every process of the machine with its CPU time, which has that of the children it has seen end."""
    for folder in _PROC.glob("[0-9]*"):
        text = _read(folder / "stat")
        if text:
            fields = text.rpartition(")")[2].split()  # the name before it may hold anything
            yield int(folder.name), _Process(int(fields[1]), sum(map(int, fields[11:15])) / _TICKS)


def _below(pids: set[int], processes: Mapping[int, _Process]) -> set[int]:
    found, wave = set[int](), pids
    while wave:
        wave = {pid for pid, each in processes.items() if each.parent in wave} - pids - found
        found |= wave
    return found


def _resident(pid: int) -> int:
    fields = _read(_PROC / str(pid) / "statm").split()
    return int(fields[1]) * _PAGE if fields else 0


def _proportional(pid: int) -> int:
    """Workers are forked from one process: pages that they share count once."""
    for line in _read(_PROC / str(pid) / "smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return _resident(pid)


def _read(path: Path) -> str:
    """The file's text; empty when the process has ended meanwhile, or is not ours to look into."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
