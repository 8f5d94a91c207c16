"""A file that carries the pid of a process and stays locked for as long as it lives.

The lock tells whether it lives, safe from reused pids, to any process and after any crash.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Generator[int]:
    """Takes the lock; a child that inherits the descriptor keeps it when this process lets go.

    Raises BlockingIOError while another process holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def alive(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with locked(path):
            return False
    except BlockingIOError:
        return True


def living_pid(path: Path) -> int | None:
    """The process's pid; None when it has ended, or has not written its pid yet."""
    return int(path.read_text().strip() or 0) or None if alive(path) else None


def living(folder: Path) -> tuple[str, ...]:
    """Names of the files whose processes live or are just being started; forgets those that have ended."""
    if not folder.is_dir():
        return ()
    for path in folder.iterdir():
        if path.stat().st_size and not alive(path):
            path.unlink(missing_ok=True)
    return tuple(sorted(path.name for path in folder.iterdir()))
