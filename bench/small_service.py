"""Executions of 20 pages without Spark over the service: `python -m bench.small_service [MINUTES]`.

From execute to COMPLETED with rows in SQL: the first of a warm service, ten at once, and one a second for some minutes.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from statistics import median

import psutil

from bench.service import Service, create_job, describe_machine, post, run_spindle, wait_until_completed
from bench.sites import serve_catalog

MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 1
PAGES, SIZE, AT_ONCE, ROUNDS = 20, 5_000, 10, 5
POLL_SECONDS = 0.25  # requests are limited
PIPELINE = """
fetch: {{url: "{url}"}}
pipeline:
  - {{stage: join, args: [li.item a]}}
  - {{stage: extract, args: [{{selector: h1, as: name}}, {{selector: .price, as: price}}]}}
"""


def main() -> None:
    print(describe_machine())
    settings = {"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.0/8", "SPINDLE_SPARE_DRIVERS": "0"}
    with serve_catalog(PAGES, SIZE) as url, run_spindle(settings) as service:
        jobs = [create_job(service.client, f"small{n}", PIPELINE.format(url=url)) for n in range(AT_ONCE)]
        wait_for_forks(service)
        print(f"first: {execute(service, 0, jobs[0], 0.05):.2f} s")
        seconds = [execute(service, 0, jobs[0], 0.05) for _ in range(ROUNDS)]
        print(f"one after another: median {median(seconds):.2f} s")
        memory = Memory(service)
        began = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            each = [*pool.map(partial(execute, service), range(AT_ONCE), jobs, repeat(POLL_SECONDS))]
        print(f"{AT_ONCE} at once: all after {time.perf_counter() - began:.2f} s, median {median(each):.2f} s")
        print(f"memory of a driver (PSS): at most {memory.stop() / 2**20:.0f} MiB")
        sustain(service, jobs)


def sustain(service: Service, jobs: list[str]) -> None:
    """Execute a job each second; print how many a minute were completed, and their latency."""
    number, began = round(MINUTES * 60), time.perf_counter()

    def run(index: int) -> float:
        time.sleep(max(0, began + index - time.perf_counter()))
        return execute(service, index % AT_ONCE, jobs[index % AT_ONCE], 1.0)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        seconds = [*pool.map(run, range(number))]
    minutes = (time.perf_counter() - began) / 60
    print(f"for {minutes:.1f} minutes: {number / minutes:.0f} a minute, median {median(seconds):.2f} s each")


def execute(service: Service, number: int, job: str, poll_seconds: float) -> float:
    """Execute the job; return the seconds until its rows are counted by SQL."""
    began = time.perf_counter()
    execution = post(service.client, f"{job}/execute", {})["executionId"]
    wait_until_completed(service.client, job, execution, poll_seconds)
    query = {"sql": f'SELECT count(*) AS rows FROM "small{number}"."small{number}"'}
    (row,) = post(service.client, "/datasets/query", query)["results"]
    if row["rows"] != PAGES:
        raise SystemExit(f"{row['rows']} rows instead of {PAGES}")
    return time.perf_counter() - began


def wait_for_forks(service: Service) -> None:
    deadline = time.monotonic() + 60
    while not (service.data / "forks.sock").exists():
        if time.monotonic() > deadline:
            raise SystemExit("no server of forks is ready")
        time.sleep(0.1)


class Memory:
    """Samples the memory of the forks, the children of the server of forks."""

    def __init__(self, service: Service) -> None:
        processes = psutil.Process(service.process.pid).children(recursive=True)
        self._server = next(each for each in processes if "--forks" in each.cmdline())
        self._most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Return the most bytes that one of them had."""
        self._ended.set()
        self._thread.join()
        return self._most

    def _sample(self) -> None:
        while not self._ended.wait(0.1):
            for child in self._server.children():
                try:
                    self._most = max(self._most, child.memory_full_info().pss)
                except psutil.Error:  # it has just ended
                    continue


if __name__ == "__main__":
    main()
