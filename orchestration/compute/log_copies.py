"""Logs of drivers: files of this machine, which are stored again and again where the storage is no folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from core.errors import Unavailable
from core.infra.settings import Settings
from core.infra.storage import is_bucket, open_storage
from core.infra.storage.local import LocalStorage
from core.infra.storage.protocol import Storage, log_key, spec_key
from orchestration.compute.protocol import DriverHandle

COPY_SECONDS = 5.0
TAIL_BYTES = 64 * 1024

log = structlog.get_logger()


class LogCopies:
    """Stores the logs of `files`. Does nothing where the storage is that folder itself."""

    def __init__(self, settings: Settings, files: LocalStorage) -> None:
        self._settings = settings
        self._files = files
        self._is_needed = is_bucket(settings.storage)
        self._storage: Storage | None = None
        self._lock = threading.Lock()
        self._copied: dict[DriverHandle, tuple[int, float]] = {}  # size and time
        self._running: threading.Thread | None = None

    def copy_changed(self, handle: DriverHandle) -> None:
        """Store a log that has grown, in the background and every few seconds."""
        if not self._is_needed or (self._running and self._running.is_alive()):
            return
        size, at = self._copied.get(handle, (0, 0.0))
        if time.monotonic() - at >= COPY_SECONDS and self._measure(handle) > size:
            self._running = threading.Thread(target=self._copy, args=(handle,), name="log copy", daemon=True)
            self._running.start()

    def finish(self, handle: DriverHandle) -> None:
        """Store the whole log of a driver that has ended, and delete its files on this machine."""
        if not self._is_needed or not self._measure(handle):
            return
        if self._copy(handle):
            attempt = (handle.organization_id, handle.execution_id, handle.attempt)
            for key in (log_key(*attempt), spec_key(*attempt)):
                self._files.delete(key)
            self._copied.pop(handle, None)

    def _measure(self, handle: DriverHandle) -> int:
        with suppress(FileNotFoundError):
            return self._files.path(self._key(handle)).stat().st_size
        return 0

    def _copy(self, handle: DriverHandle) -> bool:
        """Store the log as it is now; return False when the storage is away: a later copy has it all."""
        with self._lock:
            size = self._measure(handle)
            try:
                self._storage = self._storage or open_storage(self._settings.storage)
                with self._files.path(self._key(handle)).open("rb") as content:
                    self._storage.put(self._key(handle), content)
            except (FileNotFoundError, Unavailable) as error:
                log.warning("the log of a driver was not stored", driver=handle.name, reason=str(error))
                return False
            self._copied[handle] = size, time.monotonic()
            return True

    def _key(self, handle: DriverHandle) -> str:
        return log_key(handle.organization_id, handle.execution_id, handle.attempt)


def read_last_lines(path: Path, count: int) -> Sequence[str]:
    """Return the last lines of a log; empty before there is one."""
    if count <= 0 or not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        return file.read().decode("utf-8", "replace").splitlines()[-count:]


def read_part(path: Path, offset: int, size: int) -> bytes:
    """Return at most `size` bytes of a log from this position; empty at its end."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except FileNotFoundError:
        return b""
