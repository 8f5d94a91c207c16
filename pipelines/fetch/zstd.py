"""Bodies that a server has compressed by zstd (RFC 8878) without being asked; libcurl here knows gzip and br alone."""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

_WINDOW = 8 * 1024 * 1024  # what a client must support, and may refuse to go beyond (section 3.1.1.1.2)
_SLICE = 64  # bytes taken at a time: they unfold to at most 16 blocks of 128 KiB


class BadZstd(Exception):
    """The bytes are no zstd stream."""


class Unzstd:
    """Undoes the compression piece by piece, so that a bomb can be stopped while it unfolds."""

    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj(read_across_frames=True)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What `data` goes on with; raises BadZstd."""
        try:
            for start in range(0, len(data), _SLICE):
                yield self._stream.decompress(data[start : start + _SLICE])
        except zstandard.ZstdError as error:
            raise BadZstd from error
