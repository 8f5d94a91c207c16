"""Known pages of an incremental job, a million by default: `python -m bench.incremental [PAGES]`.

Each step runs in a new process: writing the pages, loading them, looking up 100,000 addresses, half of which are known,
and choosing the rows of an execution in which one page in a thousand is new. A step prints its seconds, and the most
memory that it took beyond that of its process when it began. Every page has an ETag.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pyarrow as pa

from bench.service import describe_machine
from pipelines.coordination.seen_pages import SCHEMA as SEEN
from pipelines.incremental.known_pages import SCHEMA, digest_address, load_known_pages, write_known_pages
from pipelines.incremental.options import PageOutcome
from pipelines.incremental.selection import SUMS, select_pages

PAGES, LOOKED_UP, NEW = 1_000_000, 100_000, 1_000  # one page in so many is new
_JOB = "job"
Step = Callable[[str, int], Callable[[], object]]


def main(pages: int) -> None:
    print(describe_machine())
    with TemporaryDirectory() as folder:
        for name, step in (("write", _write), ("load", _load), ("look up", _look_up), ("choose", _choose)):
            with get_context("spawn").Pool(1) as pool:
                seconds, megabytes = pool.apply(_measure, (step, folder, pages))
            print(f"{name}: {seconds:.2f} s, {megabytes:,.0f} MB", flush=True)
        print(f"file: {sum(each.stat().st_size for each in Path(folder).iterdir()) / 2**20:,.0f} MB")


def _measure(step: Step, folder: str, pages: int) -> tuple[float, float]:
    """Return the seconds that a step takes once it is prepared, and the memory in MB that it adds at most."""
    run = step(folder, pages)
    process, ended, most = psutil.Process(), threading.Event(), [0]
    before = process.memory_info().rss

    def watch() -> None:
        while not ended.wait(0.02):
            most[0] = max(most[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    kept = run()
    seconds = time.perf_counter() - began
    most[0] = max(most[0], process.memory_info().rss)
    ended.set()
    watcher.join()
    del kept
    return seconds, (most[0] - before) / 2**20


def _list_digests(numbers: Sequence[int]) -> list[bytes]:
    return [digest_address(f"https://shop.example/products/{number}", _JOB) for number in numbers]


def _write(folder: str, pages: int) -> Callable[[], object]:
    digests = _list_digests(range(pages))
    columns = [digests, range(pages), [0] * pages, [f'"{number:x}"' for number in range(pages)], [None] * pages]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    table = pa.table(arrays, schema=SCHEMA)
    return lambda: write_known_pages(folder, table)


def _load(folder: str, pages: int) -> Callable[[], object]:
    return lambda: load_known_pages(folder)


def _look_up(folder: str, pages: int) -> Callable[[], object]:
    known = load_known_pages(folder)
    addresses = range(pages - LOOKED_UP // 2, pages + LOOKED_UP // 2)
    return lambda: sum(digest in known for digest in _list_digests(addresses))


def _choose(folder: str, pages: int) -> Callable[[], object]:
    """Return the choice of an execution that has asked for all pages again: it writes the new ones."""
    known, new = load_known_pages(folder), pages // NEW
    digests = _list_digests(range(new, pages + new))
    found = pa.table([pa.array(digests, pa.binary()), *([pa.array([1] * pages)] * 3)], SUMS)
    fetched, nothing = [int(PageOutcome.FETCHED)] * pages, [None] * pages
    columns = [digests, fetched, [1] * pages, nothing, nothing]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SEEN, strict=True)]
    seen = pa.table(arrays, schema=SEEN)
    return lambda: select_pages(found, seen, known, has_keys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PAGES)
