"""docs/operate.md by its own commands: three instances behind a PgBouncer, a rolling restart, another key, a copy
beside production and a restore. Addresses and users are a test's own, and so is that no spare driver starts Spark.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Self
from uuid import uuid4

import pytest
from sqlalchemy import make_url

from tests.support.crashes import PersistentClient
from tests.support.pgbouncer import pooler
from tests.support.postgres import cluster, find_unprivileged_user, new_database, server
from tests.support.service import CLONE, PATIENCE_SECONDS, POLL_SECONDS, READY_SECONDS, Job, Service, wait_until

COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
AS_ROOT = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
UNIT = re.compile(r"^```ini\n# /etc/systemd/system/spindle.service\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# what systemd gives to a service without a setting
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GIVEN = "pipeline: [{stage: load_rows}]"
KEY = {"name": "kept", "provider": "OPENAI", "api_key": "sk-kept"}
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


@dataclass
class Machine:
    """A folder in place of a machine's: its settings, data and unit; all machines have the folder of the files."""

    folder: Path
    user: str
    page: str = field(default_factory=lambda: (CLONE / "docs/operate.md").read_text(encoding="utf-8"))

    @property
    def settings(self) -> Mapping[str, str]:
        lines = (self.folder / "spindle.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    def localize(self, commands: str) -> str:
        """Let commands name this machine's folders and user."""
        places = {
            "/etc/spindle.env": self.folder / "spindle.env",
            "/var/lib/spindle": self.folder / "data",
            "/srv/spindle-files": self.folder.parent / "files",
            "/opt/spindle": CLONE,
            "-u spindle": f"-u {self.user}",
            "chown spindle": f"chown {self.user}",
            "User=spindle": f"User={self.user}",
        }
        for name, place in places.items():
            commands = commands.replace(name, str(place))
        return commands

    def read_unit(self) -> ConfigParser:
        [written] = UNIT.findall(self.page)
        (self.folder / "spindle.service").write_text(self.localize(written))
        unit = ConfigParser(interpolation=None)
        unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
        unit.read(self.folder / "spindle.service")
        return unit


class Unit(Service):
    """The service of a machine as systemd runs it: the command, user, folder and variables of the unit alone."""

    machine: Machine

    @property
    def key(self) -> str:
        return self.machine.settings["SPINDLE_ADMIN_KEY"]

    def start(self) -> Self:
        unit = self.machine.read_unit()["Service"]
        self.log = self.data.with_suffix(".log")
        before = self._ready_count()
        own = {"SPINDLE_PORT": str(self.port), "SPINDLE_UI_PORT": str(self.ui_port), "SPINDLE_SPARE_DRIVERS": "0"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                shlex.split(unit["ExecStart"]),
                cwd=unit["WorkingDirectory"],
                env={"PATH": PATH, "HOME": str(self.data), "USER": unit["User"], **self.machine.settings, **own},
                user=unit["User"] if os.getuid() == 0 else None,
                group=pwd.getpwnam(unit["User"]).pw_gid if os.getuid() == 0 else None,
                extra_groups=[] if os.getuid() == 0 else None,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(lambda: self._ready_count() > before or self.process.poll() is not None, READY_SECONDS)
        assert self.process.poll() is None, self.log.read_text()
        return self


@contextmanager
def make_machines(number: int) -> Generator[list[Machine]]:
    user = find_unprivileged_user() if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    folder = Path(tempfile.mkdtemp(prefix="spindle-operate-"))
    folder.chmod(0o755)
    try:
        machines = [Machine(folder / f"machine{each}", user) for each in range(number)]
        for each in machines:
            (each.folder / "data").mkdir(parents=True)
            shutil.chown(each.folder / "data", user)
        yield machines
    finally:
        shutil.rmtree(folder)


def run(unit: Unit, job: Job, ended: Event, number: int) -> list[str]:
    """Execute until the end, and once more; return the executions that were accepted."""
    client, accepted = PersistentClient(unit), list[str]()
    while not (is_last := ended.is_set()) or not accepted:
        body = {"rows": [{"n": number}]}
        path = f"{job.path}/execute?queue=true"
        made = client.call("POST", path, body, Idempotency_Key=uuid4().hex)["executionId"]
        accepted.append(made)
        wait_until(partial(has_completed, client, job, made), PATIENCE_SECONDS, every=POLL_SECONDS)
        if is_last:
            break
    return accepted


def has_completed(client: PersistentClient, job: Job, execution: str) -> bool:
    return client.call("GET", f"{job.path}/executions/{execution}/status")["status"] == "COMPLETED"


@pytest.mark.long
def test_three_instances_a_rolling_restart_and_another_key_by_the_words_of_the_page() -> None:
    with make_machines(3) as machines, cluster() as admin:
        first, *others = machines
        _packages, making, migrating, rotating = map(first.localize, AS_ROOT.findall(first.page))
        paste(making, first.folder, ADMIN_URL=admin.url)
        written = first.settings["SPINDLE_DATABASE_URL"]
        database = make_url(written).set(port=admin.port)
        with pooler(database.render_as_string(hide_password=False)) as pooled:
            text = (first.folder / "spindle.env").read_text()
            for each in machines:
                (each.folder / "spindle.env").write_text(text.replace(written, pooled))
            if (verify := shutil.which("systemd-analyze")) is not None:
                first.read_unit()
                subprocess.run([verify, "verify", str(first.folder / "spindle.service")], check=True)
            paste(migrating, first.folder)
            units = [Unit(each.folder / "data") for each in machines]
            for unit, machine in zip(units, machines, strict=True):
                unit.machine = machine
            try:
                for unit in units:
                    unit.start()
                job = units[0].make_job(GIVEN)
                with units[0].client() as client:
                    health = client.get(f"http://127.0.0.1:{units[0].port}/api/health").json()
                assert [each["leads"] for each in health["instances"]] == [True, False, False]
                credential = units[0].post("/cloud-credentials", KEY)["id"]
                ended = Event()
                with ThreadPoolExecutor(len(units)) as clients:
                    running = [clients.submit(run, unit, job, ended, at) for at, unit in enumerate(units)]
                    try:
                        for unit in units:
                            assert unit.stop() == 0
                            unit.start()
                    finally:
                        ended.set()
                    accepted = [each for client in running for each in client.result()]
                assert len(accepted) == len({*accepted}) >= len(units)

                assert units[0].stop() == 0
                rotating = f"{migrating.splitlines()[0]}\n{rotating}"
                with pytest.raises(AssertionError, match="Another Spindle is running on this database"):
                    paste(rotating, first.folder)
                assert [unit.stop() for unit in units[1:]] == [0, 0]
                paste(rotating, first.folder)
                with pytest.raises(AssertionError, match="The service key is not that of"):
                    units[1].start()
                new = first.settings["SPINDLE_SECRET_KEY"]
                for each in others:
                    lines = {**each.settings, "SPINDLE_SECRET_KEY": new}
                    (each.folder / "spindle.env").write_text("".join(f"{name}={lines[name]}\n" for name in lines))
                units[1].start()
                assert [each["id"] for each in units[1].get("/cloud-credentials")] == [credential]
                done = Event()
                done.set()
                assert len(run(units[1], job, done, 0)) == 1
            finally:
                for each in units:
                    if "process" in vars(each) and each.process.poll() is None:
                        each.stop()
