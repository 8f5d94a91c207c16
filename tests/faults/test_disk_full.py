"""A disk without space: it is named, nothing is lost, and the service works again when there is some."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import Unavailable
from core.infra.files import check_folder
from core.infra.storage.local import LocalStorage
from driver.failures import describe_failure
from tests.support.api import start_server


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("this user may not mount a disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    filling = disk / "filling"
    with filling.open("wb", buffering=0) as file:
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


def test_a_driver_names_a_full_disk() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError) as failed:  # noqa: PT011
        full.write(b"1")
    assert describe_failure(failed.value) == "there is no space left on a disk that the driver writes to"
