"""Start and idle share of `spindle up`: `python -m bench.startup [ROUNDS [CHECKOUT...]]`, other checkouts in turns.

Ready is when the service says so: the API answers, Dagster has loaded the definitions and takes runs. There is no spare
driver, whose Spark starts later. CPU is that of all its processes, also of those that have ended. Memory is PSS (shared
pages count in parts), ten seconds after ready; the idle share is the CPU of the minute that follows.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from bench.service import CLONE, READY_WITHIN_SECONDS, describe_machine, find_free_port

SETTLE_SECONDS = 10
IDLE_SECONDS = 60


class Start(NamedTuple):
    ready_seconds: float
    cpu_seconds: float
    pss_mib: float
    idle_percent: float

    def __str__(self) -> str:
        return (
            f"ready {self.ready_seconds:.1f} s, CPU {self.cpu_seconds:.1f} s, "
            f"PSS {self.pss_mib:.0f} MiB, idle {self.idle_percent:.2f} %"
        )


def main() -> None:
    rounds, *others = sys.argv[1:] or ["3"]
    checkouts = [CLONE, *map(Path, others)]
    print(describe_machine())
    starts: dict[Path, list[Start]] = {checkout: [] for checkout in checkouts}
    for number in range(int(rounds)):
        for checkout in checkouts:
            with run_checkout(checkout) as (process, began):
                starts[checkout].append(measure_start(process, began, show=number == int(rounds) - 1))
            print(f"{checkout.name}: {starts[checkout][-1]}, load {os.getloadavg()[0]:.1f}", flush=True)
    for checkout, measured in starts.items():
        print(f"{checkout.name}, medians: {Start(*map(median, zip(*measured, strict=True)))}")


@contextmanager
def run_checkout(checkout: Path) -> Iterator[tuple[psutil.Process, float]]:
    """Start `spindle up` of a checkout in a new data folder, and yield it when ready, with the time of its start."""
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        ports = ["--port", str(find_free_port()), "--ui-port", str(find_free_port())]
        log, began = Path(folder) / "up.log", time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "cli.main", "up", "--data", f"{folder}/data", *ports],
                cwd=checkout,
                env={**os.environ, "PYTHONPATH": str(checkout), "SPINDLE_SPARE_DRIVERS": "0"},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            while "Spindle is ready." not in log.read_text():
                if process.poll() is not None or time.monotonic() - began > READY_WITHIN_SECONDS:
                    raise SystemExit(f"{checkout} is not ready: {log.read_text()}")
                time.sleep(0.05)
            yield psutil.Process(process.pid), began
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def measure_start(service: psutil.Process, began: float, *, show: bool) -> Start:
    ready, cpu = time.monotonic() - began, sum(measure_cpu(service).values())
    time.sleep(SETTLE_SECONDS)
    memory, commands = measure_memory(service.pid), {each.pid: describe_command(each) for each in list_family(service)}
    before, looked_at = measure_cpu(service), time.monotonic()
    time.sleep(IDLE_SECONDS)
    after, seconds = measure_cpu(service), time.monotonic() - looked_at
    shares = {pid: 100 * (after[pid] - before.get(pid, 0.0)) / seconds for pid in after}
    if show:
        report(memory)
        for pid, share in sorted(shares.items(), key=lambda each: -each[1]):
            print(f"{share:8.2f} %    {commands.get(pid, '')}")
    return Start(ready, cpu, sum(mib for mib, _ in memory), sum(shares.values()))


def list_family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def measure_cpu(service: psutil.Process) -> dict[int, float]:
    """Return the CPU seconds of each process and of its children that have ended, by pid."""
    found: dict[int, float] = {}
    for process in list_family(service):
        try:
            found[process.pid] = sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return found


def measure_memory(pid: int) -> list[tuple[float, str]]:
    """Return MiB (PSS) and command of a process and its descendants, the largest first."""
    return sorted(filter(None, map(measure_process, list_family(psutil.Process(pid)))), reverse=True)


def measure_process(process: psutil.Process) -> tuple[float, str] | None:
    """Return MiB (PSS) and command of a process; None when it has ended."""
    try:
        return process.memory_full_info().pss / 2**20, describe_command(process)
    except psutil.NoSuchProcess:  # or a zombie, whose parent has not fetched its status
        return None


def describe_command(process: psutil.Process) -> str:
    try:
        return " ".join(Path(word).name if word.startswith("/") else word for word in process.cmdline())[:90]
    except psutil.NoSuchProcess:
        return ""


def report(measured: list[tuple[float, str]]) -> None:
    for mib, command in measured:
        print(f"{mib:8.0f} MiB  {command}")
    print(f"{sum(mib for mib, _ in measured):8.0f} MiB  in {len(measured)} processes")


if __name__ == "__main__":
    main()
