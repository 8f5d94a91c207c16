"""Pidfiles: a file holds the pid of a process and stays locked as long as that process lives.

The lock, not the pid, shows whether it lives: pids are reused, but a lock ends with its process, also after a crash.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK_SECONDS = 1.0


@contextmanager
def hold_pidfile(path: Path) -> Generator[int]:
    """Lock the file and yield its descriptor; a child that inherits the descriptor keeps the lock.

    Raises BlockingIOError when a living process holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise BlockingIOError(f"{path} belongs to a living process.")
            time.sleep(0.01)  # `is_alive` locks it for a moment
        yield descriptor
    finally:
        os.close(descriptor)


def is_alive(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def read_alive_pid(path: Path) -> int | None:
    """Return the pid of a living process; None when it has ended, or has not written its pid yet."""
    if not is_alive(path):
        return None
    with suppress(FileNotFoundError):  # it has just ended
        return int(path.read_text().strip() or 0) or None
    return None


def list_alive(folder: Path) -> tuple[str, ...]:
    """Return the names of the pidfiles of living or starting processes; delete those of ended ones."""
    if not folder.is_dir():
        return ()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # its process deleted it
            if path.stat().st_size and not is_alive(path):
                path.unlink()
    return tuple(sorted(path.name for path in folder.iterdir()))


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
