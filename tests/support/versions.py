"""A job that writes its dataset while two readers see whole versions alone, and its driver is killed at random."""

from __future__ import annotations

import csv
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from tests.support.service import Service, wait_until

ROWS = 2000
RUNS = int(os.environ.get("SPINDLE_CRASH_OVERWRITES", "2"))
PIPELINE = """
pipeline:
  - {{stage: load_csv, args: [{{path: "{file}", inferSchema: true}}]}}
output: {{format: {format}, mode: {mode}{keys}}}
"""


def write_and_read(written: Service, format_: str, mode: str) -> None:
    """Run a job several times, killing some of its drivers, while two readers see whole versions alone."""
    seed = int(os.environ.get("SPINDLE_CRASH_SEED") or random.SystemRandom().randrange(10**6))
    print("seed", seed)
    chance, file = random.Random(seed), written.files / f"{format_}.csv"
    keys = ", keys: [id]" if mode in ("merge", "history") else ""
    job = written.make_job(PIPELINE.format(file=file, format=format_, mode=mode, keys=keys))
    write_rows(file, 0)
    assert written.wait(job, written.execute(job), seconds=600)["status"] == "COMPLETED"
    (dataset,) = written.get(f"/datasets?projectId={job.project_id}")
    whole, killed = [0], 0
    query, download = (Reader(partial(read, written, dataset["id"])) for read in (query_rows, download_rows))
    with query, download:
        for run in range(1, RUNS + 1):
            write_rows(file, run)
            execution = written.execute(job)
            if run % 2 and run != RUNS:
                killed += kill_driver(written, execution, chance.uniform(0.2, 5))
            if written.wait(job, execution, "CANCELLED", seconds=600)["status"] == "COMPLETED":
                whole.append(run)
        for reader in (query, download):
            wait_until(lambda reader=reader: reader.seen and reader.seen[-1]["last"] == whole[-1], 60)
    print(f"{format_}: {killed} killed, {len(whole)} published, {query.reads} and {download.reads} reads")
    for answer in (*query.seen, *download.seen):
        if mode in ("append", "history"):  # each run changes all rows, which become states of their keys
            assert answer["n"] == ROWS * (whole.index(answer["last"]) + 1), "rows of published runs, each once"
        else:
            assert (answer["n"], answer["first"]) == (ROWS, answer["last"]), "the rows of one run"
        assert answer["last"] in whole


class Reader:
    """Reads the dataset until it is closed; `seen` are the distinct answers, in their order."""

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        self._read_once = read
        self._stop = threading.Event()
        self.seen: list[dict[str, Any]] = []
        self.reads = 0
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stop.is_set():
            answer = self._read_once()
            self.reads += 1
            time.sleep(0.5)  # queries shall not take the writers' cores
            if not self.seen or self.seen[-1] != answer:
                self.seen.append(answer)


def query_rows(service: Service, dataset_id: str) -> dict[str, Any]:
    sql = "SELECT count(*) AS n, min(run) AS first, max(run) AS last FROM dataset"
    (answer,) = service.post("/datasets/query", {"sql": sql, "datasetId": dataset_id})["results"]
    return answer


def download_rows(service: Service, dataset_id: str) -> dict[str, Any]:
    with service.client() as client:
        response = client.get(f"/datasets/{dataset_id}/download", params={"format": "csv"})
    assert response.is_success, response.text
    runs = [int(row["run"]) for row in csv.DictReader(response.text.splitlines())]
    return {"n": len(runs), "first": min(runs), "last": max(runs)}


def write_rows(file: Any, run: int) -> None:
    file.write_text("id,run\n" + "".join(f"{number},{run}\n" for number in range(ROWS)))


def kill_driver(service: Service, execution: str, seconds: float) -> bool:
    """Kill the driver of the execution with all its processes some time after it has started."""
    folder = service.data / "drivers"
    wait_until(lambda: [*folder.glob(f"*.{execution}.1")], 120)
    time.sleep(seconds)
    with suppress(StopIteration, ValueError, ProcessLookupError):
        pid = int(next(folder.glob(f"*.{execution}.1")).read_text())
        os.killpg(pid, signal.SIGKILL)
        return True
    return False
