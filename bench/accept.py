"""Latency of POST …/execute: `python -m bench.accept`.

200 sequential calls, ten per project, to one API process with SQLite. Without a launcher, no driver
competes for the cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.service import (
    compute_percentiles,
    create_client,
    create_job,
    describe_machine,
    find_free_port,
    post,
    run_process,
    wait_for,
)

PROJECTS, CALLS_EACH = 20, 10
PIPELINE = (
    "fetch: {url: 'http://127.0.0.1:9/'}\npipeline:\n  - {stage: extract, args: [{selector: h1, method: text}]}\n"
)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="spindle-bench-") as folder:
        port = find_free_port()
        environment = {"SPINDLE_DATA": folder, "SPINDLE_PORT": str(port)}
        subprocess.run([sys.executable, "-m", "cli.data_folder"], env={**os.environ, **environment}, check=True)
        with run_process(["-m", "api"], environment, Path(folder) / "api.log") as process:
            wait_for(f"http://127.0.0.1:{port}/readyz", process)
            report(measure_accepts(port, Path(folder)))


def measure_accepts(port: int, data: Path) -> list[float]:
    with create_client(port, data) as client:
        jobs = [create_job(client, f"bench {number}", PIPELINE) for number in range(PROJECTS)]
        durations: list[float] = []
        for job in jobs * CALLS_EACH:
            began = time.perf_counter()
            post(client, f"{job}/execute", {})
            durations.append(time.perf_counter() - began)
        return durations


def report(durations: list[float]) -> None:
    p50, p95 = (1000 * value for value in compute_percentiles(durations))
    print(describe_machine())
    print(f"execute accepted, {len(durations)} calls: p50 {p50:.1f} ms, p95 {p95:.1f} ms")


if __name__ == "__main__":
    main()
