"""Explores of many pages on Spark in a heap of 1 GB: `python -m bench.large_explore [links] [PAGES…]`.

`spindle run` fetches pages of 1 KB with ten links each, which nginx makes from their addresses. With `links`, Spark's
workers make the pages themselves: rows, links and exchanges alone. Prints the speed, and the memory by tenths of the
time: what the JVM's heap holds after a garbage collection (with a JDK), resident memory of the JVM, of its Python
workers, and of the command.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

import psutil
import pyarrow.parquet as pq

from bench.crawlers.fields import CRAWLS
from bench.crawlers.pipeline import build_pipeline
from bench.memory import SAMPLE_SECONDS
from bench.nginx import install_packages
from bench.service import describe_machine
from bench.sites import serve_tree

SIZES = (20_000, 100_000, 400_000)
HEAP = "1g"
HEAP_SECONDS = 10.0  # between two looks at the heap, each of which collects its garbage
MIB = 1024 * 1024
PARTS = 10


@dataclass
class Samples:
    """Bytes over the time of a command, by kind."""

    jvm: list[int] = field(default_factory=list[int])
    workers: list[int] = field(default_factory=list[int])
    command: list[int] = field(default_factory=list[int])
    heap: list[int] = field(default_factory=list[int])
    cpu_seconds: float = 0

    def watch(self, pid: int) -> None:
        """Sample a process and its descendants until it ends."""
        looked = time.monotonic()
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            while root.status() != psutil.STATUS_ZOMBIE:
                totals, cpu_seconds = {"java": 0, "python": 0}, 0.0
                for each in root.children(recursive=True):
                    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                        is_java = each.name() == "java"
                        totals["java" if is_java else "python"] += each.memory_info().rss
                        cpu_seconds += sum(each.cpu_times()[:4])  # those of ended workers are their daemon's
                        if is_java and time.monotonic() - looked > HEAP_SECONDS:
                            self.heap += _measure_live_heap(each.pid)
                            looked = time.monotonic()
                self.command.append(root.memory_info().rss)
                self.cpu_seconds = max(self.cpu_seconds, cpu_seconds)
                if totals["java"]:
                    self.jvm.append(totals["java"])
                    self.workers.append(totals["python"])
                time.sleep(SAMPLE_SECONDS)

    def report(self, pages: int) -> None:
        """Print the CPU time of Spark, which other work on the machine hardly changes, and the memory."""
        print(f"  CPU of JVM and workers: {self.cpu_seconds / pages * 1000:.2f} ms a page")
        print("  MiB by tenths of the time")
        for name, values in (
            ("heap", self.heap),
            ("JVM", self.jvm),
            ("workers", self.workers),
            ("command", self.command),
        ):
            bounds = [len(values) * part // PARTS for part in range(PARTS + 1)]
            parts = [values[first:last] for first, last in pairwise(bounds) if first < last]
            print(f"    {name}: {', '.join(f'{median(part) / MIB:.0f}' for part in parts)}")


def main() -> None:
    links, sizes = "links" in sys.argv, [int(each) for each in sys.argv[1:] if each.isdecimal()]
    if not links:
        install_packages()
    print(describe_machine())
    for pages in sizes or SIZES:
        (run_links if links else run_command)(pages)


def run_links(pages: int) -> None:
    """Explore a tree whose pages the workers make."""
    command = [sys.executable, "-m", "bench.crawlers.synthetic", str(pages), HEAP]
    output, _, samples = run_watched(command, pages)
    result = json.loads(output.splitlines()[-1])
    print(f"\n{pages:,} pages of links alone, load {os.getloadavg()[0]:.1f}: {result['seconds']:.1f} s")
    report_speed([second for second, count in result["made"] for _ in range(count)], result["seconds"])
    samples.report(pages)


def run_command(pages: int) -> None:
    """Explore a tree that nginx serves by `spindle run`."""
    with tempfile.TemporaryDirectory() as folder, serve_tree(pages) as site:
        file, rows = Path(folder) / "explore.yaml", Path(folder) / "rows.parquet"
        file.write_text(build_pipeline(CRAWLS["graph"], "  engine: spark\n  robots: ignore\n  concurrency: 32"))
        command = [sys.executable, "-m", "cli.main", "run", str(file), "-p", f"SITE={site}", "-o", str(rows)]
        _, seconds, samples = run_watched(command, pages)
        fetched = pq.read_table(rows, columns=["_fetchedAt"]).column(0).to_pylist()
    print(f"\n{pages:,} pages by spindle run, load {os.getloadavg()[0]:.1f}: {seconds:.1f} s")
    report_speed([each.timestamp() for each in fetched], seconds)
    samples.report(pages)


def run_watched(command: Sequence[str], pages: int) -> tuple[str, float, Samples]:
    """Run a command with the heap's limit; return its output, its seconds and its memory."""
    environment = {**os.environ, "SPINDLE_SPARK_DRIVER_MEMORY": HEAP}
    began, samples = time.perf_counter(), Samples()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        watcher = threading.Thread(target=samples.watch, args=(process.pid,))
        watcher.start()
        output, errors = process.communicate()
        watcher.join()
    if process.returncode:
        samples.report(pages)
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{errors[-3000:]}")
    return output, time.perf_counter() - began, samples


def report_speed(fetched: list[float], seconds: float) -> None:
    """Print pages per second, from the times at which pages were fetched."""
    fetched.sort()
    last = fetched[-len(fetched) // PARTS :]
    print(
        f"  {len(fetched):,} pages: {len(fetched) / seconds:,.0f} pages/s of all, "
        f"{len(fetched) / max(fetched[-1] - fetched[0], 1):,.0f} from the first to the last, "
        f"{len(last) / max(last[-1] - last[0], 1):,.0f} in the last tenth"
    )


def _measure_live_heap(pid: int) -> list[int]:
    """Return the bytes of all objects in the heap of a JVM after a collection; nothing without a JDK."""
    if not shutil.which("jcmd"):
        return []
    done = subprocess.run(["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True)
    total = next((line for line in reversed(done.stdout.splitlines()) if line.startswith("Total")), None)
    return [int(total.split()[2])] if total else []


if __name__ == "__main__":
    main()
