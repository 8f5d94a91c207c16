"""Memory of the JVMs and Python workers of a benchmark, sampled while they work (Linux)."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import psutil

SAMPLE_SECONDS = 0.5

Samples = list[dict[str, int]]


@contextmanager
def sample_memory() -> Generator[Samples]:
    """Append the resident bytes of this process's descendants to a list, twice a second."""
    samples: Samples = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            samples.append(measure_resident_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield samples
    finally:
        stop.set()
        watcher.join()


def measure_resident_bytes() -> dict[str, int]:
    """Return the resident bytes of the JVMs and of the Python workers among this process's descendants."""
    totals = {"jvm": 0, "workers": 0}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            totals["jvm" if process.name() == "java" else "workers"] += process.memory_info().rss
    return totals
