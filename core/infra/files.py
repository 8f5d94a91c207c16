"""Durable writes to files of this machine, and the errors of disks that cannot take them."""

from __future__ import annotations

import os
from errno import EDQUOT, EIO, ENOSPC, EROFS
from pathlib import Path
from uuid import uuid4

from core.errors import Unavailable

DISK_FAULTS = frozenset({EDQUOT, EIO, ENOSPC, EROFS})
FULL = frozenset({EDQUOT, ENOSPC})


def check_folder(folder: Path, part: str) -> None:
    """Raise Unavailable unless the disk takes a byte in the folder, which is that of a part of the service."""
    probe = folder / f".probe-{uuid4().hex}"
    try:
        try:
            probe.write_bytes(b"1")
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise describe_disk_fault(error, part) from error


def describe_disk_fault(error: OSError, part: str) -> Unavailable:
    """Return the error for callers, which names no paths."""
    if error.errno in FULL:
        return Unavailable(f"There is no space left on the disk of the {part}.", code="no-space", path=part)
    reason = os.strerror(error.errno) if error.errno else "it cannot be written"
    return Unavailable(f"The {part} cannot be used: {reason}.", code="storage-unavailable", path=part)


def sync(path: Path) -> None:
    """Wait until the disk holds the content of a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
