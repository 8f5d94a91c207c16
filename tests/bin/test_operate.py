"""docs/operate.md by its own commands: a copy beside production and a restore; only addresses are a test's own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.postgres import new_database, server
from tests.support.service import CLONE, Service

COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COUNT = {"sql": "SELECT count(*) AS count FROM kept"}


def read_commands(folder: Path) -> list[str]:
    """Return the blocks of commands without their last one, which stays in the foreground."""
    page = (CLONE / "docs/operate.md").read_text(encoding="utf-8")
    here = page.replace("/srv/", f"{folder}/").replace("bin/spindle", str(CLONE / "bin/spindle"))
    return [re.sub(r" && \S+/bin/spindle up$", "", each, flags=re.MULTILINE) for each in COMMANDS.findall(here)]


def paste(commands: str, folder: Path, **environment: str) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def upload(service: Service, name: str) -> str:
    with service.client() as client:
        answer = client.post("/datasets/upload", files={"file": ("a.csv", b"n\n1\n2\n")}, data={"name": name})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def count(service: Service) -> int:
    return service.post("/datasets/query", COUNT)["results"][0]["count"]


@pytest.mark.long
def test_a_copy_and_a_restore_by_the_commands_of_the_page(tmp_path: Path) -> None:
    copying, restoring = read_commands(tmp_path)
    (tmp_path / "files").mkdir()
    with server() as admin, new_database(admin) as prod, new_database(admin) as other:
        place = {"SPINDLE_DATABASE_URL": prod}
        production = Service(tmp_path / "spindle", place, storage=str(tmp_path / "files")).start()
        copy = Service(tmp_path / "staging", {"SPINDLE_DATABASE_URL": other}, storage=str(tmp_path / "staging-files"))
        try:
            upload(production, "kept")
            project = production.post("/projects", {"name": "ordinary", "cronSchedule": "@daily"})["id"]
            schedules = f"/projects/id/{project}/schedules"
            production.post(schedules, {"name": "daily", "cronSchedule": "@weekly"})
            paste(copying, tmp_path, PROD_URL=prod, COPY_URL=other)
            copy.start()
            assert count(copy) == 2
            assert [each["enabled"] for each in copy.get(schedules)] == [False, False]
            assert [each["enabled"] for each in production.get(schedules)] == [True, True]
            assert copy.stop() == 0

            backup, restore = restoring.split("\n", 1)
            paste(backup, tmp_path, PROD_URL=prod)
            late = upload(production, "after the backup")
            assert production.stop() == 0
            named = restore.replace("DATABASE prod", f"DATABASE {prod.rpartition('/')[2]}")
            kept = {"SPINDLE_DATA": str(production.data), "SPINDLE_STORAGE": production.storage, **place}
            paste(named, tmp_path, PROD_URL=prod, ADMIN_URL=admin, **kept)
            production.start()
            assert count(production) == 2
            with production.client() as client:
                assert client.get(f"/datasets/{late}").status_code == 404
        finally:
            for each in (production, copy):
                if "process" in vars(each) and each.process.poll() is None:
                    each.stop()
