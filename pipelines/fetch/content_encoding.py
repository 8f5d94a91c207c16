"""What a server has compressed for the transfer, undone (RFC 9110, section 8.4): gzip, deflate, br and zstd.

libcurl as it is packaged lacks zstd, undoes codings within codings, and takes what comes to nothing for as long as it
comes. Here memory and time are bounded.
"""

from __future__ import annotations

import re
import time
import zlib
from typing import Protocol

import brotli
from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

ACCEPTED = "gzip, deflate, br, zstd"
_SAID = re.compile(rb"(?im)^content-encoding:[ \t]*([^\r\n]*)")
_ANSWER = re.compile(rb"(?m)^HTTP/")
_NONE = frozenset((b"", b"identity", b"none"))
_NEXT = {b"gzip": b"\x1f\x8b", b"x-gzip": b"\x1f\x8b", b"zstd": b""}  # how another stream begins; all else is dropped
_WINDOW: dict[int, int] = {DecompressionParameter.window_log_max: 23}  # 8 MiB, which servers keep to (RFC 9659)
_SLICE = 16 * 1024  # bytes undone at a time
_SECONDS = 0.5  # of the processor for one page; honest ones of 16 MiB take less than a tenth


class Undecodable(ValueError):
    """The bytes are not what the header says, or are made to keep us busy."""


class _Stream(Protocol):
    """`unused_data` follows the end of the stream, which `eof` says has come."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Brotli:
    unused_data = b""  # it refuses what follows its end

    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return self._decoder.is_finished()

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """May be twice as long as it should."""
        return self._decoder.process(data, output_buffer_limit=max_length)


def undone(body: bytes, head: bytes, most: int) -> bytes:
    """`body` as it was before the codings that the header lines `head` name, `most` + 1 bytes of it at most.

    Of a body that is itself longer than `most` bytes, and thus cut, what can be made of it. Raises Undecodable.
    """
    if b"content-encoding:" not in head.lower():  # far quicker than the pattern
        return body
    head = _ANSWER.split(head)[-1]  # what an interim one says is not of this body
    named = b",".join(_SAID.findall(head)).lower().split(b",")
    codings = [coding for each in named if (coding := each.strip()) not in _NONE]
    if not codings or not body:
        return body
    if len(codings) > 1:  # nobody needs that, and each may be a bomb for the next
        raise Undecodable
    try:
        return _undone(body, codings[0], most)
    except (zlib.error, brotli.error, ZstdError) as error:
        raise Undecodable from error


def _undone(body: bytes, coding: bytes, most: int) -> bytes:
    stream, at = _stream(coding, body), 0
    pieces: list[bytes] = []
    room = most + 1
    deadline = time.thread_time() + _SECONDS
    while room > 0 and at < len(body):
        if stream.eof:
            if coding not in _NEXT or not body.startswith(_NEXT[coding], at):
                break
            stream = _stream(coding, body)
        data = body[at : at + _SLICE]
        piece = stream.decompress(data, room)
        at += len(data) - len(stream.unused_data)
        pieces.append(piece)
        room -= len(piece)
        if time.thread_time() > deadline:
            raise Undecodable
    if room > 0 and not stream.eof and len(body) <= most:
        raise Undecodable
    return b"".join(pieces)[: most + 1]


def _stream(coding: bytes, body: bytes) -> _Stream:
    match coding:
        case b"gzip" | b"x-gzip":
            return zlib.decompressobj(zlib.MAX_WBITS | 32)  # or zlib's own format, as libcurl takes it
        case b"deflate":
            return zlib.decompressobj(zlib.MAX_WBITS if _is_zlib(body) else -zlib.MAX_WBITS)
        case b"br":
            return _Brotli()
        case b"zstd":
            return ZstdDecompressor(options=_WINDOW)
        case _:
            raise Undecodable


def _is_zlib(body: bytes) -> bool:
    """Whether `body` begins as RFC 1950 has it; many servers send the bare stream of RFC 1951 instead."""
    return body[0] & 0x0F == zlib.DEFLATED and int.from_bytes(body[:2], "big") % 31 == 0
