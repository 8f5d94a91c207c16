"""A throw-away MariaDB for tests of MySQL's protocol, in a folder and on a port of loopback of its own."""

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
from pathlib import Path

import pytest

from tests.support.service import free_port

USER, PASSWORD = "reader", "throw-away"
ACCESS = f"CREATE DATABASE shop CHARACTER SET utf8mb4; CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; "
START_SECONDS = 60


@contextmanager
def serve_mysql(statements: str) -> Generator[int]:
    """Yield the port of a server with a database `shop`, after these statements in it; skip where there is none.

    USER may read the database.
    """
    server, installer = (shutil.which(name, path=SEARCHED) for name in ("mariadbd", "mariadb-install-db"))
    if server is None or installer is None:
        pytest.skip("MariaDB is not installed (Debian: apt-get install mariadb-server)")
    folder = Path(tempfile.mkdtemp(prefix="spindle-mysql-"))
    user = "mysql" if os.getuid() == 0 else None  # it refuses to be run by root
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    data, port, rules = folder / "data", free_port(), folder / "init.sql"
    begun = f"{ACCESS}GRANT SELECT ON shop.* TO {USER}@'127.0.0.1'; USE shop; {statements}; "
    rules.write_text(begun.replace("; ", ";\n"))  # a statement a line
    with (folder / "out").open("wb") as out:
        as_user = [f"--user={user}"] if user else []
        subprocess.run(
            [installer, "--no-defaults", *as_user, f"--datadir={data}", "--skip-test-db"],
            check=True,
            stdout=out,
            stderr=out,
        )
        places = [f"--datadir={data}", f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"]
        options = [f"--port={port}", "--bind-address=127.0.0.1", "--character-set-server=utf8mb4"]
        command = [server, "--no-defaults", *as_user, *places, *options, f"--init-file={rules}"]
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            _await_start(process, folder)
            yield port
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            shutil.rmtree(folder)


SEARCHED = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"))


def _await_start(process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if "ready for connections" in (folder / "out").read_text():
            return
        time.sleep(0.1)
    raise AssertionError(f"MariaDB did not start: {(folder / 'out').read_text()[-2000:]}")
