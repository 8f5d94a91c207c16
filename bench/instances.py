"""One instance beside three on one PostgreSQL: `python -m bench.instances [SECONDS [ROUNDS [CORES]]]`, as root.

Each instance, with its drivers, may use CORES of the machine (a cgroup's quota of version 1). PostgreSQL, the pages and
the clients have a group without one. All groups come before whatever else the machine does. Prints the executions a
minute of 20 pages without Spark, and the share of the quota's periods in which an instance had to wait: where that is
small, something else was the limit.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median

from bench.outages import serve_instances
from bench.service import describe_machine
from bench.sites import serve_catalog
from bench.throughput import PAGES, PIPELINE, SIZE
from core.tables.states import TERMINAL
from tests.support.crashes import PersistentClient
from tests.support.processes import descendants
from tests.support.service import Job, Service

SECONDS, ROUNDS, CORES = map(float, (*sys.argv[1:4], *("60", "2", "0.3")[len(sys.argv) - 1 :]))
MANY, CLIENTS, PROJECTS = 3, 24, 6
WARM_SECONDS, POLL_SECONDS, PERIOD = 10, 0.3, 100_000
GROUPS = Path("/sys/fs/cgroup/cpu")
FIRST = "262144"  # the most shares: the machine's other processes have 1,024


def main() -> None:
    print(describe_machine())
    ratios: list[float] = []
    with serve_catalog(PAGES, SIZE) as url:
        for _ in range(int(ROUNDS)):
            one, many = (measure(number, url) for number in (1, MANY))
            ratios.append(many / one)
    print(f"{MANY} instances / one: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def measure(number: int, url: str) -> float:
    """Return the executions a minute of so many instances."""
    with make_groups(number) as (common, groups), serve_instances(number) as (services, _):
        move(common, [os.getpid(), *descendants(os.getpid())])
        for service, group in zip(services, groups, strict=True):
            move(group, [service.process.pid, *descendants(service.process.pid)])
        jobs = [services[0].make_job(PIPELINE.format(url=url)) for _ in range(PROJECTS)]
        for group in groups:
            (group / "cpu.cfs_quota_us").write_text(str(int(CORES * PERIOD)))
        saturate(services, jobs, WARM_SECONDS)
        before, began = [read_periods(each) for each in groups], time.perf_counter()
        ended = saturate(services, jobs, SECONDS)
        minutes = (time.perf_counter() - began) / 60
        after = [read_periods(each) for each in groups]
        for group in groups:
            (group / "cpu.cfs_quota_us").write_text("-1")  # or the stop takes minutes
        waits = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(before, after, strict=True)]
        print(
            f"{number} of {CORES} cores: {ended / minutes:.0f} a minute, {ended} ended; waited for the quota in",
            end=" ",
        )
        print(", ".join(f"{each:.0%}" for each in waits), flush=True)
        return ended / minutes


def saturate(services: Sequence[Service], jobs: Sequence[Job], seconds: float) -> int:
    """Execute for so long from all clients; return how many completed until the last one."""
    end, numbers = time.monotonic() + seconds, count()

    def work(number: int) -> int:
        client, ended = PersistentClient(services[number % len(services)]), 0
        while time.monotonic() < end:
            job = jobs[next(numbers) % len(jobs)]
            made = client.call("POST", f"{job.path}/execute?queue=true", {})["executionId"]
            while (state := client.call("GET", f"{job.path}/executions/{made}/status")["status"]) not in TERMINAL:
                time.sleep(POLL_SECONDS)
            if state != "COMPLETED":
                raise SystemExit(f"{made} is {state}")
            ended += 1
        return ended

    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(work, range(CLIENTS)))


@contextmanager
def make_groups(number: int) -> Generator[tuple[Path, list[Path]]]:
    """Yield a cgroup for what all use, and one for each instance; remove them when their processes have ended."""
    made = [GROUPS / f"spindle-bench-{os.getpid()}-{each}" for each in range(number + 1)]
    for each in made:
        each.mkdir()
        (each / "cpu.shares").write_text(FIRST)
    try:
        yield made[0], made[1:]
    finally:
        for each in made:
            move(GROUPS, map(int, (each / "cgroup.procs").read_text().split()))
            each.rmdir()


def move(group: Path, pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            (group / "cgroup.procs").write_text(str(pid))
        except ProcessLookupError:  # it has just ended
            continue


def read_periods(group: Path) -> tuple[int, int]:
    """Return the periods of the quota in which the group ran, and those in which it had to wait."""
    found = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(found["nr_periods"]), int(found["nr_throttled"])


if __name__ == "__main__":
    main()
