"""A PgBouncer in transaction mode before a PostgreSQL, with its defaults otherwise."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.postgres import find_unprivileged_user
from tests.support.service import free_port, wait_until

CONFIGURATION = """\
[databases]
{database} = host={host} port={port} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
auth_type = any
pool_mode = transaction
unix_socket_dir =
"""


@contextmanager
def pooler(server_url: str) -> Generator[str]:
    """The URL of the server's database through a PgBouncer; skips where that is not installed."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    url, own_port = make_url(server_url), free_port()
    folder = Path(tempfile.mkdtemp(prefix="spindle-pgbouncer-"))
    (folder / "pgbouncer.ini").write_text(
        CONFIGURATION.format(
            database=url.database,
            host=url.host,
            port=url.port,
            user=url.username,
            password=url.password,
            own_port=own_port,
        )
    )
    user = find_unprivileged_user() if os.getuid() == 0 else None
    if user is not None:
        for path in (folder, folder / "pgbouncer.ini"):
            os.chown(path, pwd.getpwnam(user).pw_uid, -1)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, str(folder / "pgbouncer.ini")],
            user=user,
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    try:
        wait_until(lambda: "listening on" in (folder / "log").read_text(), 10)
        yield url.set(port=own_port).render_as_string(hide_password=False)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)
