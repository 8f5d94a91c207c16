"""`python bench/datasets.py`: memory of the API during an upload and a download, and the cost of publishing.

The API runs in a process of its own, whose memory is read from /proc before and during both transfers. Publishing is
measured with 10 and with 100,000 datasets of one organization, whose rows SQL inserts.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from sqlalchemy import insert

from cli.data_folder import prepare
from core.data.datasets.models import DatasetCreate
from core.data.datasets.repository import DatasetRepository, NewVersion
from core.definitions.identity.api_keys import create_key
from core.definitions.identity.organizations import create_organization
from core.infra.database import Database, open_database
from core.infra.settings import Settings
from core.tables import Dataset, DatasetVersion, new_id
from tests.support.service import free_port

MEGABYTES = int(os.environ.get("MEGABYTES", "1000"))
PUBLICATIONS = 200
LINE = b"12345,some text in a cell that is not short,3.25,2026-01-02\n" * 16_000
HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="big.csv"\r\n\r\nid,name,price,day\n'


def read_resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class PeakMemory:
    """Samples a process's memory in a thread."""

    def __init__(self, pid: int) -> None:
        self._pid, self._stop = pid, threading.Event()
        self.before = self.peak = read_resident(pid)
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.05):
            self.peak = max(self.peak, read_resident(self._pid))


def produce() -> Iterator[bytes]:
    yield HEAD
    for _ in range(MEGABYTES * 1_000_000 // len(LINE)):
        yield LINE
    yield b"\r\n--x--\r\n"


def measure_transfers(settings: Settings, key: str) -> None:
    environment = os.environ | {"SPINDLE_DATA": str(settings.data), "SPINDLE_PORT": str(settings.api.port)}
    api = subprocess.Popen([sys.executable, "-m", "api"], env=environment, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{settings.api.port}/api/svc/api"
    with httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=600) as client:
        while True:
            try:
                client.get("/datasets").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.2)
        client.post("/datasets/upload", files={"file": b"a\n1\n"}).raise_for_status()
        started = time.perf_counter()
        with PeakMemory(api.pid) as memory:
            headers = {"Content-Type": "multipart/form-data; boundary=x"}
            made = client.post("/datasets/upload", content=produce(), headers=headers).raise_for_status().json()
        report("upload", time.perf_counter() - started, memory)
        for format_ in ("csv", "parquet"):
            started, received = time.perf_counter(), 0
            with (
                PeakMemory(api.pid) as memory,
                client.stream("GET", f"/datasets/{made['id']}/download", params={"format": format_}) as answer,
            ):
                for chunk in answer.iter_raw():
                    received += len(chunk)
            report(f"download as {format_} ({received / 1e6:.0f} MB)", time.perf_counter() - started, memory)
    api.terminate()
    api.wait()


def report(name: str, seconds: float, memory: PeakMemory) -> None:
    print(f"{name}: {seconds:.1f} s, + {(memory.peak - memory.before) / 2**20:.0f} MiB in the API process", flush=True)


def measure_publishing(database: Database, organization_id: str) -> None:
    medians: list[float] = []
    for count in (10, 100_000):
        fill(database, organization_id, count)
        with database.write() as session:
            dataset_id = DatasetRepository(session, organization_id).create(DatasetCreate(name=f"target of {count}")).id
        times: list[float] = []
        for _ in range(PUBLICATIONS):
            with database.write(durable=False) as session:
                started = time.perf_counter()
                datasets = DatasetRepository(session, organization_id)
                files = NewVersion(f"{organization_id}/datasets/{new_id()}", "parquet", [], 1, 1)
                datasets.find_at(f"spindle://default/target_of_{count}")
                datasets.publish(datasets.get(dataset_id), None, files, path=None)
                session.flush()
                datasets.create(DatasetCreate(name="prices"))
                times.append(time.perf_counter() - started)
                session.rollback()
        medians.append(statistics.median(times))
        print(f"publish at {count:,} datasets: {medians[-1] * 1000:.2f} ms", flush=True)
    print(f"ratio: {medians[1] / medians[0]:.2f}")


def fill(database: Database, organization_id: str, count: int) -> None:
    rows = [(new_id(), new_id(), f"table_{count}_{number}") for number in range(count)]
    common = {"organization_id": organization_id, "schema_slug": "default"}
    with database.write() as session:
        for start in range(0, count, 5000):
            part = rows[start : start + 5000]
            datasets = [
                {"id": id_, "name": name, "slug": name, "current_version_id": version, **common}
                for id_, version, name in part
            ]
            versions = [
                {"id": version, "dataset_id": id_, "locations": [f"x/{name}"], "columns": []}
                for id_, version, name in part
            ]
            session.execute(insert(Dataset), datasets)
            session.execute(insert(DatasetVersion), versions)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder) / "data", port=free_port())
        prepare(settings)
        database = open_database(settings)
        with database.write() as session:
            organization_id = create_organization(session, "bench").id
            _, key = create_key(session, organization_id, "bench", None)
        measure_transfers(settings, key)
        measure_publishing(database, organization_id)
        database.close()


if __name__ == "__main__":
    main()
