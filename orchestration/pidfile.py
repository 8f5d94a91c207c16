"""A file that carries the pid of a process and stays locked for as long as it lives.

The lock tells whether it lives, safe from reused pids, to any process and after any crash.
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
def locked(path: Path) -> Generator[int]:
    """Takes the lock; a child that inherits the descriptor keeps it when this process lets go.

    Raises BlockingIOError when a living process holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    try:
        while not _lock(descriptor):
            if time.monotonic() > deadline:
                raise BlockingIOError(f"{path} belongs to a living process.")
            time.sleep(0.01)  # somebody may just be looking
        yield descriptor
    finally:
        os.close(descriptor)


def alive(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def living_pid(path: Path) -> int | None:
    """The process's pid; None when it has ended, or has not written its pid yet."""
    if not alive(path):
        return None
    with suppress(FileNotFoundError):  # it ended meanwhile
        return int(path.read_text().strip() or 0) or None
    return None


def living(folder: Path) -> tuple[str, ...]:
    """Names of the files whose processes live or are just being started; forgets those that have ended."""
    if not folder.is_dir():
        return ()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # its process took it away
            if path.stat().st_size and not alive(path):
                path.unlink()
    return tuple(sorted(path.name for path in folder.iterdir()))


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
