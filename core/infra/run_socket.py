"""Requests of Dagster's processes to the launcher about runs, over a Unix socket."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.unix_socket import connect

CONNECT_SECONDS = 15.0


def get_run_socket(home: Path) -> Path:
    return home / "runs.sock"


def get_run_pidfile(home: Path, run_id: str) -> Path:
    return home / "runs" / run_id


def is_launcher_up(home: Path) -> bool:
    try:
        connect(get_run_socket(home)).close()
    except OSError:
        return False
    return True


def send_request(home: Path, request: Mapping[str, Any], patience: float = CONNECT_SECONDS) -> None:
    """Let the launcher start or interrupt a run; return when it has.

    Waits while it restarts. Raises OSError when it stays down, or could not start the run.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            connection = connect(get_run_socket(home))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
            continue
        with connection:
            connection.sendall(json.dumps(request).encode() + b"\n")
            if connection.recv(2) != b"ok":
                raise OSError("The launcher could not start the run.")
            return
