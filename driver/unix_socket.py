"""Unix sockets, also in folders whose paths are longer than an address may be."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

MAX_ADDRESS_BYTES = 103  # 107 on Linux (unix(7)), 103 on macOS
DESCRIPTORS = Path("/proc/self/fd")


def connect(path: Path, seconds: float | None = None) -> socket.socket:
    """Return a connection to the socket at this path, with a limit in seconds; raise OSError where nobody listens."""
    return _open(path, socket.socket.connect, seconds)


def bind(path: Path) -> socket.socket:
    """Return a socket at this path, which does not listen yet; raise OSError where it cannot be created."""
    return _open(path, socket.socket.bind)


def _open(path: Path, use_address: Callable[[socket.socket, str], None], seconds: float | None = None) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX)
    opened.settimeout(seconds)
    try:
        with _open_address(path) as address:
            use_address(opened, address)
    except OSError:
        opened.close()
        raise
    return opened


@contextmanager
def _open_address(path: Path) -> Generator[str]:
    """Yield an address of the path: where that is too long, one of its opened folder, or from the working folder."""
    if len(os.fsencode(path)) <= MAX_ADDRESS_BYTES:
        yield str(path)
    elif DESCRIPTORS.exists():
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield str(DESCRIPTORS / str(folder) / path.name)
        finally:
            os.close(folder)
    else:
        yield os.path.relpath(path)
