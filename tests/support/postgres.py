"""A throw-away PostgreSQL for tests: the server that the environment names, else a cluster of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, make_url, text

from tests.support.service import free_port

DEBIAN = Path("/usr/lib/postgresql")  # which keeps the server's programs off the PATH
PASSWORD = "throw-away"
# what a test writes need not outlive the machine
OPTIONS = {"fsync": "off", "full_page_writes": "off", "unix_socket_directories": "''"}


@dataclass
class Cluster:
    """A cluster in a folder of its own, on a port of loopback; run as another user where tests are run by root."""

    folder: Path
    binaries: Path
    port: int
    max_connections: int = 300

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        (self.folder / "password").write_text(PASSWORD)
        if os.getuid() == 0:
            user = pwd.getpwnam(find_unprivileged_user())
            for path in (self.folder, self.folder / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        secured = [f"--pwfile={self.folder / 'password'}", "--auth=scram-sha-256", "--username=postgres"]
        self._run("initdb", "--no-sync", "--encoding=UTF8", "--locale=C", *secured, "-D", str(self._data))

    def start(self) -> None:
        options = " ".join(f"-c {name}={value}" for name, value in self._options.items())
        where = ["-l", str(self.folder / "log"), "-o", f"-c listen_addresses=127.0.0.1 -p {self.port} {options}"]
        self._run("pg_ctl", "start", "-w", "-D", str(self._data), *where)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(self._data))

    def kill(self) -> None:
        """End the server with SIGKILL; its processes notice that and end too."""
        os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def start_again(self, seconds: float = 60) -> None:
        """Start after a kill, once no process of the killed server is left."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.start()
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    @property
    def _options(self) -> dict[str, str]:
        return {**OPTIONS, "max_connections": str(self.max_connections)}

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        user = find_unprivileged_user() if os.getuid() == 0 else None
        command = [str(self.binaries / program), *arguments]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        with (self.folder / f"{program}.log").open("ab") as log:
            # never a pipe: the server would inherit it and keep it open
            subprocess.run(
                command, user=user, group=user and pwd.getpwnam(user).pw_gid, extra_groups=[] if user else None,
                cwd="/", env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True,
            )  # fmt: skip


def is_installed() -> bool:
    return _binaries() is not None


@contextmanager
def cluster(max_connections: int = 300) -> Generator[Cluster]:
    """A running cluster; skips where PostgreSQL is not installed."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed; bin/test installs it")
    folder = Path(tempfile.mkdtemp(prefix="spindle-postgres-"))
    made = Cluster(folder, binaries, free_port(), max_connections)
    try:
        made.create()
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def server() -> Generator[str]:
    """The URL of a server on which databases may be made: SPINDLE_TEST_POSTGRES_URL, else a cluster of its own."""
    if url := os.environ.get("SPINDLE_TEST_POSTGRES_URL"):
        yield url
        return
    with cluster() as made:
        yield made.url


@contextmanager
def new_database(server_url: str) -> Generator[str]:
    """The URL of a new, empty database on the server."""
    location = make_url(server_url).set(drivername="postgresql+psycopg")
    name = f"spindle_{uuid4().hex}"
    engine = create_engine(location, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        engine.dispose()


def _binaries() -> Path | None:
    """The newest that is installed."""
    if initdb := shutil.which("initdb"):
        return Path(initdb).parent
    return max(DEBIAN.glob("*/bin"), key=lambda folder: int(folder.parent.name), default=None)


def find_unprivileged_user() -> str:
    """PostgreSQL does not run as root."""
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
