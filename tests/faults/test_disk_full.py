"""A disk without space: it is named, nothing is lost, and the service works again when there is some."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from core.errors import Unavailable
from core.infra.background import OutageLog
from core.infra.database import open_database
from core.infra.files import check_folder
from core.infra.migrations import migrate
from core.infra.process_log import ProcessLog
from core.infra.settings import Settings
from core.infra.storage.local import LocalStorage
from driver.failures import UNAVAILABLE, classify_failure, describe_failure
from orchestration.outages import is_outage
from pipelines.local.output import write_rows
from pipelines.page_cache.store import SqlitePageStore
from tests.support.api import start_server
from tests.support.service import serve_service
from tests.support.shop import make_shop
from tests.support.site import GatedSite


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB."""
    with mount(tmp_path / "disk", "8m") as folder:
        yield folder


@contextmanager
def mount(folder: Path, size: str) -> Generator[Path]:
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("this user may not mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    """Fill the disk, or what has been freed of a filled one."""
    filling = disk / "filling"
    with filling.open("ab", buffering=0) as file:
        for size in (2**16, 2**8, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
    return filling


def test_a_full_disk_is_down_and_named(disk: Path) -> None:
    with start_server(disk / "data") as server:
        acme = server.caller("acme", "admin")
        project = acme.project("full")
        assert acme.call("GET", "/api/health").status_code == server.client.get("/readyz").status_code == 200
        filling = fill(disk)
        ready = server.client.get("/readyz")
        assert (ready.status_code, ready.json()["reason"]) == (
            503,
            "There is no space left on the disk of the data folder.",
        )
        health = acme.call("GET", "/api/health")
        assert health.status_code == 503
        found = {(each["path"], each["code"]) for each in health.json()["details"]}
        assert {("data folder", "no-space"), ("storage", "no-space")} <= found
        rows = {"file": ("rows.csv", b"a\n" + b"1\n" * 10_000)}
        upload = acme.call("POST", "/datasets/upload", files=rows, data={"projectId": project})
        assert (upload.status_code, upload.json()["details"][0]["code"]) == (503, "no-space")
        filling.unlink()
        assert server.client.get("/readyz").status_code == 200
        assert acme.call("GET", "/api/health").status_code == 200


def test_a_folder_that_cannot_be_written_is_named(disk: Path) -> None:
    check_folder(disk, "data folder")
    LocalStorage(disk).check()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for check in (lambda: check_folder(disk, "data folder"), LocalStorage(disk).check):
        with pytest.raises(Unavailable, match="Read-only file system") as refused:
            check()
        assert refused.value.details[0].code == "storage-unavailable"


def write_to_full_disk() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        full.write(b"1")


def test_a_driver_names_a_full_disk_which_its_pipeline_is_not_to_blame_for() -> None:
    with pytest.raises(OSError, match="No space left") as failed:
        write_to_full_disk()
    assert describe_failure(failed.value) == "there is no space left on a disk that the driver writes to"
    assert classify_failure(failed.value) == UNAVAILABLE
    assert is_outage(failed.value)


def test_an_output_waits_for_room(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filling, waits = fill(disk), list[float]()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            filling.unlink()

    monkeypatch.setattr("pipelines.local.output.time", SimpleNamespace(sleep=sleep))  # other threads sleep too
    rows = pa.table({"text": [hashlib.sha256(str(number).encode()).hexdigest() for number in range(50_000)]})
    written = write_rows(rows, str(disk / "output"))
    assert (written.rows, len(waits)) == (50_000, 3)
    (file,) = (disk / "output").iterdir()
    assert pq.read_table(file).equals(rows)


def test_a_run_goes_on_without_its_page_cache(disk: Path) -> None:
    fill(disk)
    store = SqlitePageStore(disk)
    store.compact(1, 1)
    assert store.lookup("", "http://localhost/") is None
    store.close()


@pytest.mark.parametrize("is_open", [True, False])
def test_a_database_without_room_says_so(disk: Path, is_open: bool) -> None:
    settings = Settings(data=disk)
    migrate(settings)
    with closing(open_database(settings)) as database:
        if is_open:
            make_shop(settings, database)
        filling = fill(disk)
        for begin in (database.write, *([] if is_open else [database.read])):
            with (
                pytest.raises(Unavailable, match="on the disk of the metadata database") as refused,
                begin() as session,
            ):
                session.execute(text("UPDATE organizations SET name = name || hex(zeroblob(100000))"))
            assert refused.value.details[0].code == "no-space"
        filling.unlink()
        make_shop(settings, database, "later")


def test_a_background_process_waits_for_room() -> None:
    with capture_logs() as lines:
        outages = OutageLog()
        assert [outages.run_step(write_to_full_disk) for _ in range(100)] == [False] * 100
        assert outages.run_step(lambda: None)
    assert [line["reason"] for line in lines] == ["There is no space left on the disk of the service."]


def test_lines_that_the_disk_does_not_take_are_counted(disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, line = ProcessLog(disk / "spindle.log"), '{"level": "info", "event": "%s"}'
    log.write("api", line % "before")
    filling = fill(disk)
    for _ in range(10_000):
        log.write("api", line % ("x" * 100))
    filling.unlink()
    for event in ("after", "later"):
        log.write("api", line % event)
    log.close()
    *_, counted, after, later = (disk / "spindle.log").read_text().splitlines()
    count, _, sentence = json.loads(counted)["event"].partition(" ")
    assert sentence == "lines were lost while their disk was full"
    assert int(count) > 9000
    assert ("after" in after, "later" in later) == (True, True)
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
def test_executions_outlive_a_full_disk(tmp_path: Path, site: GatedSite) -> None:
    with mount(tmp_path / "disk", "200m") as disk, serve_service(disk) as service:
        job = service.make_job(
            f"fetch: {{url: '{site.url}'}}\npipeline: [{{stage: extract, args: [{{selector: h1, as: title}}]}}]"
        )
        executions = [service.execute(job) for _ in range(2)]
        for execution in executions:
            service.wait(job, execution, "RUNNING")
        lines = service.log.read_text().count("\n")
        filling = fill(disk)
        with service.client() as client:
            for _ in range(15):
                fill(disk)  # processes that end free some of it
                ready = client.get(f"http://127.0.0.1:{service.port}/readyz")
                assert ready.json()["reason"] == "There is no space left on the disk of the data folder."
                refused = client.post(f"{job.path}/execute", json={})
                assert (refused.status_code, refused.json()["details"][0]["code"]) == (503, "no-space")
                time.sleep(1)
        site.open()  # they are done before there is room for their rows
        time.sleep(5)
        filling.unlink()
        for execution in executions:
            ended = service.wait(job, execution)
            assert ended["status"] == "COMPLETED", ended["errorMessage"]
            assert service.get(f"{job.path}/executions/{execution}")["attempt"] == 1
        assert service.wait(job, service.execute(job))["status"] == "COMPLETED"
        assert service.log.read_text().count("\n") - lines < 150
        assert "lines were lost" in (service.data / "spindle.log").read_text()
