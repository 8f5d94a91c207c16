"""A limit on requests a second that the processes of one machine keep together."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from pathlib import Path

BURST_SECONDS = 1.0  # requests of this time may follow one another at once
MAX_WAIT_SECONDS = 60.0  # a clock that was set back must not stop everything
_TIME = struct.Struct("d")


class SharedRate:
    """Requests a second of all processes that name the same file, which holds the time of the last one in the queue."""

    def __init__(self, path: Path, per_second: float) -> None:
        self._path = path
        self._pause = 1 / per_second

    def wait(self) -> None:
        """Sleep until the caller's request is due; requests are due in the order of their calls."""
        time.sleep(max(0.0, self._reserve(time.time())))

    def _reserve(self, now: float) -> float:
        """Return the seconds until the next free place in the queue, which is taken."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            last = os.pread(descriptor, _TIME.size, 0)
            (due,) = _TIME.unpack(last) if len(last) == _TIME.size else (now,)
            due = min(max(due, now), now + MAX_WAIT_SECONDS)
            os.pwrite(descriptor, _TIME.pack(due + self._pause), 0)
        finally:
            os.close(descriptor)
        return due - BURST_SECONDS - now
