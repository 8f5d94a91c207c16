"""One pipeline over all that a server can do wrong: it ends, tells of each row what happened, and leaks nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.pipelines.conftest import Run
from tests.pipelines.fetch.bad_server import BadServer, bad_server
from tests.service import PATIENCE_SECONDS, wait_until

__all__ = ["bad_server"]

PIPELINE = """
pipeline:
  - {stage: load_csv, args: ["${FILE}"]}
  - {stage: wget, args: [$address]}
  - {stage: extract, args: [{selector: h1, as: heading}]}
spindle: {robots: ignore, cache: 0, timeout: 6, maxFailureRatio: 1, keepColumns: [_error]}
"""
UNENDING = "timed out after 6 s"
LARGE = "the page is larger than 16,777,216 bytes"
CUT = "closed the connection before the whole page came"
# What is wrong with the answer of each path, in words of the row's error; None where the page can be had all the same.
PATHS = {
    "/chain?left=3": None,
    "/reset-once": None,
    "/too-long": None,
    "/gzip": None,
    "/zstd": None,
    "/loop": "redirects more than 20 times",
    "/slow-redirects": "redirects more than 20 times",
    "/reset": "broke",
    "/reset-midway": "broke",
    "/empty": "closed the connection without an answer",
    "/too-short": CUT,
    "/bad-length": "does not speak HTTP",
    "/not-http": "does not speak HTTP",
    "/silent?seconds=9": UNENDING,
    "/stall?seconds=9": UNENDING,
    "/drip": UNENDING,
    "/large?size=100000000": LARGE,
    "/bomb?size=100000000": LARGE,
    "/bomb-br": LARGE,
    "/zstd?size=100000000": LARGE,
    "/bad-gzip": "cannot be decompressed",
    "/bad-zstd": "cannot be decompressed",
    "/headers?count=10000": "",
}


def test_a_pipeline_over_all_of_it_ends_and_tells_of_each_row(run: Run, bad_server: BadServer, tmp_path: Path) -> None:
    file = tmp_path / "addresses.csv"
    file.write_text("address\n" + "".join(f"{bad_server.url(path)}\n" for path in PATHS))
    run(PIPELINE, FILE=str(file))  # what Spark and the engine start once is there from now on
    before = settled(bad_server)
    rows = run(PIPELINE, FILE=str(file))
    wait_until(lambda: settled(bad_server) <= before, PATIENCE_SECONDS)
    assert len(rows) == len(PATHS)
    for row, (path, error) in zip(rows, PATHS.items(), strict=True):
        assert row["address"] == bad_server.url(path)
        assert row["heading"] == ("It works" if error is None else None), path
        assert (error or "") in (row["_error"] or ""), path
        assert (row["_error"] is None) is (error is None), path


def settled(server: BadServer) -> tuple[int, int]:
    """Open files and threads of this process, once the server that is in it has given up on its last answer."""
    wait_until(lambda: not +server.running, PATIENCE_SECONDS)
    time.sleep(0.5)
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
