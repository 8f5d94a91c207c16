"""Time until `spindle up` is ready, and memory of its processes: `python -m bench.startup`.

Ready is when the API and the Dagster UI both answer. Memory is PSS (shared pages count in parts), ten
seconds after the last of three starts.
"""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from bench.service import describe_machine, run_spindle

STARTS = 3


def main() -> None:
    print(describe_machine())
    for _ in range(STARTS):
        with run_spindle() as service:
            print(f"ready after {service.ready_after:.1f} s", flush=True)
            time.sleep(10)
            measured = measure_memory(service.process.pid)
    report(measured)


def measure_memory(pid: int) -> list[tuple[float, str]]:
    """Return MiB (PSS) and command of a process and its descendants, the largest first."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return sorted(filter(None, map(measure_process, family)), reverse=True)


def measure_process(process: psutil.Process) -> tuple[float, str] | None:
    """Return MiB (PSS) and command of a process; None when it has ended."""
    try:
        return process.memory_full_info().pss / 2**20, describe_command(process)
    except psutil.NoSuchProcess:  # or a zombie, whose parent has not fetched its status
        return None


def describe_command(process: psutil.Process) -> str:
    return " ".join(Path(word).name if word.startswith("/") else word for word in process.cmdline())[:90]


def report(measured: list[tuple[float, str]]) -> None:
    for mib, command in measured:
        print(f"{mib:8.0f} MiB  {command}")
    print(f"{sum(mib for mib, _ in measured):8.0f} MiB  in {len(measured)} processes")


if __name__ == "__main__":
    main()
