"""Content decoding (RFC 9110, section 8.4): gzip, deflate, br and zstd, with limits on size and CPU time.

Packaged libcurl lacks zstd, decodes nested encodings, and has no limit for content that expands to nothing.
"""

from __future__ import annotations

import re
import time
import zlib
from typing import Protocol

import brotli
from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
_HEADER = re.compile(rb"(?im)^content-encoding:[ \t]*([^\r\n]*)")
_STATUS_LINE = re.compile(rb"(?m)^HTTP/")
# Other names, like `utf-8` or `aws-chunked`, are mistakes of servers, which browsers ignore.
_CODINGS = re.compile(rb"gzip|deflate|zstd|\bbr\b|compress|\bexi\b|dc[bz]|aes128gcm")
# what the next of several concatenated streams begins with; other bytes after a stream are ignored
_NEXT_STREAM = {b"gzip": b"\x1f\x8b", b"x-gzip": b"\x1f\x8b", b"zstd": b""}
_ZSTD_OPTIONS: dict[int, int] = {DecompressionParameter.window_log_max: 23}  # 8 MiB, as RFC 9659 requires of servers
_SLICE = 16 * 1024  # bytes decoded at a time
_MAX_CPU_SECONDS = 0.5  # for one page; ordinary pages of 16 MiB take less than a tenth


class UndecodableContent(ValueError):
    """The body does not match its Content-Encoding header, or exceeds the limits of decoding."""


class _Decoder(Protocol):
    """A stream decoder; `unused_data` are the bytes after the end of the stream."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _BrotliDecoder:
    unused_data = b""  # brotli rejects data after the end

    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return self._decoder.is_finished()

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Return up to twice `max_length` bytes."""
        return self._decoder.process(data, output_buffer_limit=max_length)


def decode_content(body: bytes, head: bytes, max_size: int) -> bytes:
    """Decode `body` as the header lines `head` say, up to `max_size` + 1 bytes; raise UndecodableContent.

    Names that are no codings of HTTP are ignored. A body that was cut because it is itself longer than `max_size` is
    decoded as far as possible.
    """
    if b"content-encoding:" not in head.lower():  # faster than the pattern
        return body
    head = _STATUS_LINE.split(head)[-1]  # without the headers of interim answers
    names = b",".join(_HEADER.findall(head)).lower().split(b",")
    encodings = [name.strip() for name in names if _CODINGS.search(name)]
    if not encodings or not body:
        return body
    if len(encodings) > 1:  # never needed, and each may be a bomb for the next
        raise UndecodableContent
    try:
        return _decode(body, encodings[0], max_size)
    except (zlib.error, brotli.error, ZstdError) as error:
        raise UndecodableContent from error


def decompress_gzip(body: bytes, max_size: int) -> bytes:
    """Return the content of a file of gzip; raise UndecodableContent if it is damaged or exceeds `max_size` bytes."""
    try:
        content = _decode(body, b"gzip", max_size)
    except zlib.error as error:
        raise UndecodableContent from error
    if len(content) > max_size:
        raise UndecodableContent(f"it has more than {max_size:,} bytes when decompressed")
    return content


def _decode(body: bytes, encoding: bytes, max_size: int) -> bytes:
    decoder, start = _make_decoder(encoding, body), 0
    pieces: list[bytes] = []
    room = max_size + 1
    deadline = time.thread_time() + _MAX_CPU_SECONDS
    while room > 0 and start < len(body):
        if decoder.eof:
            if encoding not in _NEXT_STREAM or not body.startswith(_NEXT_STREAM[encoding], start):
                break
            decoder = _make_decoder(encoding, body)
        data = body[start : start + _SLICE]
        piece = decoder.decompress(data, room)
        start += len(data) - len(decoder.unused_data)
        pieces.append(piece)
        room -= len(piece)
        if time.thread_time() > deadline:
            raise UndecodableContent
    if room > 0 and not decoder.eof and len(body) <= max_size:
        raise UndecodableContent
    return b"".join(pieces)[: max_size + 1]


def _make_decoder(encoding: bytes, body: bytes) -> _Decoder:
    match encoding:
        case b"gzip" | b"x-gzip":
            return zlib.decompressobj(zlib.MAX_WBITS | 32)  # accepts the zlib format too, as libcurl does
        case b"deflate":
            return zlib.decompressobj(zlib.MAX_WBITS if _has_zlib_header(body) else -zlib.MAX_WBITS)
        case b"br":
            return _BrotliDecoder()
        case b"zstd":
            return ZstdDecompressor(options=_ZSTD_OPTIONS)
        case _:
            raise UndecodableContent


def _has_zlib_header(body: bytes) -> bool:
    """Return whether `body` is in the format of RFC 1950; many servers send a bare stream (RFC 1951) instead."""
    return body[0] & 0x0F == zlib.DEFLATED and int.from_bytes(body[:2], "big") % 31 == 0
