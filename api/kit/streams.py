"""Bodies of answers that are read from files as they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

CHUNK_BYTES = 2**18


def read_chunks(content: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file, and close it."""
    with closing(content):
        while chunk := content.read(CHUNK_BYTES):
            yield chunk
