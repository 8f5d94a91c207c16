"""Parts of a stored file: the Range and If-Range headers of a download."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from os import SEEK_END
from typing import BinaryIO

from fastapi import Request

from core.errors import RangeNotSatisfiable

CHUNK_BYTES = 2**18
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes of a file from `start` to before `end`; `partial` for a range."""

    start: int
    end: int
    size: int
    partial: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an answer with this part."""
        headers = {"Accept-Ranges": "bytes", "Content-Length": str(self.end - self.start)}
        if self.partial:
            headers["Content-Range"] = f"bytes {self.start}-{self.end - 1}/{self.size}"
        return headers


def parse_range(request: Request, size: int, etag: str) -> Part:
    """Return the part of a file that a request names: the whole file unless it names one range of this version.

    Several ranges, and a range of another version, are answered with the whole file, as HTTP allows. Raises
    RangeNotSatisfiable for a range beyond the end.
    """
    whole = Part(0, size, size)
    match = _RANGE.fullmatch(request.headers.get("range", "").replace(" ", ""))
    if match is None or request.headers.get("if-range", etag) != etag:
        return whole
    first, last = match.groups()
    if not first and not last:
        return whole
    if first and last and int(last) < int(first):
        return whole
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if start >= size:
        raise RangeNotSatisfiable(f"The file has {size} bytes; ask for a range within them.", path="Range")
    return Part(start, end, size, partial=True)


def read_requested_part(request: Request, file: BinaryIO, tag: str) -> tuple[Generator[bytes], int, dict[str, str]]:
    """Return the requested bytes of a stored file, and the status and the headers of its answer.

    The tag is different for every version of the file. Raises RangeNotSatisfiable, with the file closed.
    """
    etag = f'"{tag}"'
    try:
        part = parse_range(request, file.seek(0, SEEK_END), etag)
    except RangeNotSatisfiable:
        file.close()
        raise
    return _read_part(file, part), 206 if part.partial else 200, {"ETag": etag, **part.headers}


def _read_part(file: BinaryIO, part: Part) -> Generator[bytes]:
    """Yield the bytes of a part, and close the file."""
    with closing(file):
        file.seek(part.start)
        left = part.end - part.start
        while left and (chunk := file.read(min(CHUNK_BYTES, left))):
            left -= len(chunk)
            yield chunk
