"""A PgBouncer in transaction mode before a PostgreSQL, by the file of docs/connections.md with other addresses."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from configparser import ConfigParser
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.postgres import find_unprivileged_user
from tests.support.service import CLONE, free_port, wait_until

CONFIGURATION = re.compile(r"^```ini\n# /etc/pgbouncer/pgbouncer.ini\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def pooler(server_url: str) -> Generator[str]:
    """The URL of the server's database through a PgBouncer; skips where that is not installed."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    url, own_port = make_url(server_url), free_port()
    folder = Path(tempfile.mkdtemp(prefix="spindle-pgbouncer-"))
    configuration = ConfigParser()
    [written] = CONFIGURATION.findall((CLONE / "docs/connections.md").read_text(encoding="utf-8"))
    configuration.read_string(written)
    configuration["databases"] = {f"{url.database}": f"host={url.host} port={url.port}"}
    places = {"listen_port": f"{own_port}", "auth_file": f"{folder / 'userlist.txt'}", "unix_socket_dir": ""}
    configuration["pgbouncer"].update(places)
    with (folder / "pgbouncer.ini").open("w") as file:
        configuration.write(file)
    (folder / "userlist.txt").write_text(f'"{url.username}" "{url.password}"\n')
    user = find_unprivileged_user() if os.getuid() == 0 else None
    if user is not None:
        for path in (folder, *folder.iterdir()):
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
