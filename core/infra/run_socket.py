"""Requests of Dagster's processes to the launcher about runs, over a Unix socket."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONNECT_SECONDS = 15.0


def get_run_socket(home: Path) -> str:
    """Return the launcher's socket, absolute or relative, whichever is shorter: 107 bytes are the maximum."""
    return min(str(home / "runs.sock"), os.path.relpath(home / "runs.sock"), key=len)


def get_run_pidfile(home: Path, run_id: str) -> Path:
    return home / "runs" / run_id


def is_launcher_up(home: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(get_run_socket(home))
        except OSError:
            return False
    return True


def send_request(home: Path, request: Mapping[str, Any], patience: float = CONNECT_SECONDS) -> None:
    """Let the launcher start or interrupt a run; return when it has.

    Waits while it restarts. Raises OSError when it stays down, or could not start the run.
    """
    deadline = time.monotonic() + patience
    while True:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(get_run_socket(home))
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                continue
            connection.sendall(json.dumps(request).encode() + b"\n")
            if connection.recv(2) != b"ok":
                raise OSError("The launcher could not start the run.")
            return
