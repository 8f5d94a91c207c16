"""Executions of 20 pages without Spark over the service: `python -m bench.small_service [MINUTES]`.

From execute to COMPLETED with rows in SQL: the first of a warm service, ten at once, and one a second for some minutes;
and a join of 4 rows of a file with 3 of a dataset, in Trino's SQL.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

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
TABLE = """
pipeline:
  - {{stage: load_csv, args: [{path}]}}
"""
QUERY = "SELECT r.name, r.price, m.kind FROM rows r LEFT JOIN more m ON m.name = r.name"


def main() -> None:
    print(describe_machine())
    with (
        TemporaryDirectory() as folder,
        serve_catalog(PAGES, SIZE) as url,
        run_spindle(list_settings(folder)) as service,
    ):
        jobs = [create_job(service.client, f"small{n}", PIPELINE.format(url=url)) for n in range(AT_ONCE)]
        wait_for_forks(service)
        print(f"first: {execute(service, 'small0', jobs[0], 0.05):.2f} s")
        seconds = [execute(service, "small0", jobs[0], 0.05) for _ in range(ROUNDS)]
        print(f"one after another: median {median(seconds):.2f} s")
        seconds = join_tables(service, Path(folder))
        print(f"join of 4 rows with 3: first {seconds[0]:.2f} s, median {median(seconds):.2f} s")
        memory, names = Memory(service), [f"small{n}" for n in range(AT_ONCE)]
        began = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            each = [*pool.map(partial(execute, service), names, jobs, repeat(POLL_SECONDS))]
        print(f"{AT_ONCE} at once: all after {time.perf_counter() - began:.2f} s, median {median(each):.2f} s")
        print(f"memory of a driver (PSS): at most {memory.stop() / 2**20:.0f} MiB")
        sustain(service, jobs)


def list_settings(folder: str) -> dict[str, str]:
    networks = {"SPINDLE_FETCH_ALLOW_NETWORKS": "127.0.0.0/8", "SPINDLE_SPARE_DRIVERS": "0"}
    return {**networks, "SPINDLE_LOCAL_FOLDERS": folder}


def join_tables(service: Service, folder: Path) -> list[float]:
    """Return the seconds of executions of a join of small tables."""
    (folder / "four.csv").write_text("name,price\na,1\nb,2\nc,3\nd,4\n")
    (folder / "three.csv").write_text("name,kind\na,x\nb,y\ne,z\n")
    four, three = (TABLE.format(path=folder / f"{name}.csv") for name in ("four", "three"))
    execute(service, "three", create_job(service.client, "three", three), 0.05, 3)
    query = f'  - {{stage: sql_query, args: ["{QUERY}", {{dialect: trino, tables: {{more: three.three}}}}]}}\n'
    job = create_job(service.client, "joined", four + query)
    return [execute(service, "joined", job, 0.05, 4) for _ in range(ROUNDS)]


def sustain(service: Service, jobs: list[str]) -> None:
    """Execute a job each second; print how many a minute were completed, and their latency."""
    number, began = round(MINUTES * 60), time.perf_counter()

    def run(index: int) -> float:
        time.sleep(max(0, began + index - time.perf_counter()))
        return execute(service, f"small{index % AT_ONCE}", jobs[index % AT_ONCE], 1.0)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        seconds = [*pool.map(run, range(number))]
    minutes = (time.perf_counter() - began) / 60
    print(f"for {minutes:.1f} minutes: {number / minutes:.0f} a minute, median {median(seconds):.2f} s each")


def execute(service: Service, name: str, job: str, poll_seconds: float, rows: int = PAGES) -> float:
    """Execute the job; return the seconds until its rows are counted by SQL."""
    began = time.perf_counter()
    execution = post(service.client, f"{job}/execute", {})["executionId"]
    wait_until_completed(service.client, job, execution, poll_seconds)
    query = {"sql": f'SELECT count(*) AS rows FROM "{name}"."{name}"'}
    (row,) = post(service.client, "/datasets/query", query)["results"]
    if row["rows"] != rows:
        raise SystemExit(f"{row['rows']} rows instead of {rows}")
    return time.perf_counter() - began


def wait_for_forks(service: Service) -> None:
    deadline = time.monotonic() + 60
    while not any(service.data.glob("scratch/forks-*/socket")):
        if time.monotonic() > deadline:
            raise SystemExit("no host of forks is ready")
        time.sleep(0.1)


class Memory:
    """Samples the memory of the forks, the children of the host of forks."""

    def __init__(self, service: Service) -> None:
        processes = psutil.Process(service.process.pid).children(recursive=True)
        self._server = next(each for each in processes if "/forks-" in "".join(each.cmdline()))
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
