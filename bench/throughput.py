"""Small executions without a pause: `python -m bench.throughput [SECONDS [ROUNDS [CHECKOUT...]]]`, checkouts in turns.

Eight clients execute jobs of three projects, 20 pages without Spark each, as fast as they end, and ten at once. Prints
executions a minute, the median from execute to COMPLETED, the CPU seconds of the service's own processes for each, the
partitions a minute of a backfill of 100, and the memory of all of them (PSS), also with 500 that wait.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median

import httpx
import psutil

from bench.service import CLONE, create_client, create_job, find_free_port, post, wait_for
from bench.sites import serve_catalog

PAGES, SIZE = 20, 5_000
CLIENTS, PROJECTS, AT_ONCE, PARTITIONS, WAITING = 8, 3, 10, 100, 500
WARM_SECONDS, POLL_SECONDS = 8, 0.3
PIPELINE = """
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: join, args: [li.item a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}, {{selector: .price, as: price}}]}}
"""


def main() -> None:
    seconds, rounds, *others = *sys.argv[1:3], *("40", "2")[len(sys.argv[1:3]) :], *sys.argv[3:]
    with serve_catalog(PAGES, SIZE) as url:
        for _ in range(int(rounds)):
            for checkout in (CLONE, *map(Path, others)):
                with run_checkout(checkout) as (process, client):
                    measure(checkout.name, process, client, PIPELINE.format(url=url), float(seconds))


def measure(name: str, process: psutil.Process, client: httpx.Client, pipeline: str, seconds: float) -> None:
    jobs = [create_job(client, f"small{number}", pipeline) for number in range(PROJECTS)]
    idle = measure_memory(process)
    saturate(client, jobs, WARM_SECONDS)
    before, began = measure_cpu(process), time.perf_counter()
    each = saturate(client, jobs, seconds)
    minutes = (time.perf_counter() - began) / 60
    cpu = (measure_cpu(process) - before) / len(each)
    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda number: execute(client, jobs[number % PROJECTS]), range(AT_ONCE)))
    ten = time.perf_counter() - began
    split = create_job(client, "split", f"{pipeline}spindle: {{userAgent: '${{PART}}'}}\n")
    partitions = backfill(client, split)
    for number in range(WAITING):
        client.post(f"{jobs[number % PROJECTS]}/execute", params={"queue": "true"}, json={})
    waiting = measure_memory(process)
    print(
        f"{name}: {len(each) / minutes:.0f} a minute, median {median(each):.2f} s, CPU of the service {cpu:.2f} s; "
        f"{AT_ONCE} at once {ten:.1f} s; a backfill's partitions {partitions:.0f} a minute; "
        f"memory {idle:.0f} MiB, {waiting:.0f} with {WAITING} submitted",
        flush=True,
    )


def saturate(client: httpx.Client, jobs: list[str], seconds: float) -> list[float]:
    """Return the seconds of each execution that the clients have begun in this time."""
    end, numbers = time.monotonic() + seconds, count()

    def work(_client: int) -> list[float]:
        found: list[float] = []
        while time.monotonic() < end:
            found.append(execute(client, jobs[next(numbers) % PROJECTS]))
        return found

    with ThreadPoolExecutor(CLIENTS) as pool:
        return [each for found in pool.map(work, range(CLIENTS)) for each in found]


def backfill(client: httpx.Client, job: str) -> float:
    """Return how many partitions a backfill makes in a minute."""
    keys = [f"part{number}" for number in range(PARTITIONS)]
    client.put(job, json={"partitions": {"values": keys, "parameter": "PART"}}).raise_for_status()
    began = time.perf_counter()
    path = f"{job}/backfills/{post(client, f'{job}/backfills', {})['id']}"
    while (found := client.get(path).json())["state"] == "RUNNING":
        time.sleep(POLL_SECONDS)
    if found["state"] != "COMPLETED":
        raise SystemExit(f"the backfill is {found['state']}: {found['counts']}")
    return PARTITIONS / (time.perf_counter() - began) * 60


def execute(client: httpx.Client, job: str) -> float:
    began = time.perf_counter()
    execution = post(client, f"{job}/execute", {})["executionId"]
    while (status := client.get(f"{job}/executions/{execution}/status").json()["status"]) != "COMPLETED":
        if status == "FAILED":
            raise SystemExit(f"{execution} has failed")
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - began


@contextmanager
def run_checkout(checkout: Path) -> Generator[tuple[psutil.Process, httpx.Client]]:
    """Run `spindle up` of a checkout with a temporary data folder; yield its process and a client."""
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        port, ui_port, data = find_free_port(), find_free_port(), Path(folder)
        environment = {
            **{"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
            **{"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.0/8", "SPINDLE_SPARE_DRIVERS": "0"},
            "SPINDLE_REQUESTS_PER_MINUTE": "100000",
        }
        ports = ["--port", str(port), "--ui-port", str(ui_port)]
        with (data / "up.log").open("wb") as log:
            command = [str(checkout / ".venv/bin/python"), "-m", "cli.main", "up", "--data", folder, *ports]
            started = subprocess.Popen(command, cwd=checkout, env=environment, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/readyz", started)
            wait_for(f"http://127.0.0.1:{ui_port}/server_info", started)
            while not (data / "forks.sock").exists() and not any(data.glob("scratch/forks-*/socket")):
                time.sleep(0.1)
            with create_client(port, data) as client:
                yield psutil.Process(started.pid), client
        finally:
            started.terminate()
            time.sleep(1)
            started.terminate()  # without waiting for executions
            started.wait(90)


def list_processes(process: psutil.Process) -> list[psutil.Process]:
    """Return the service's processes without those of drivers."""
    found = process.children(recursive=True)
    drivers = [each for each in found if any("forks" in part for part in _get_command(each))]
    forks = [fork for each in drivers for fork in each.children(recursive=True)]
    return [each for each in found if each not in drivers and each not in forks]


def measure_cpu(process: psutil.Process) -> float:
    """Return the CPU seconds of the service's processes and of those of their children that have ended."""
    total = 0.0
    for each in list_processes(process):
        try:
            times = each.cpu_times()
        except psutil.Error:  # it has just ended
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def measure_memory(process: psutil.Process) -> float:
    total = 0
    for each in list_processes(process):
        try:
            total += each.memory_full_info().pss
        except psutil.Error:
            continue
    return total / 2**20


def _get_command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


if __name__ == "__main__":
    main()
