"""Bodies of answers that are produced as they are sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import closing
from typing import BinaryIO

import anyio
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool

CHUNK_BYTES = 2**18


def read_chunks(content: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file, and close it."""
    with closing(content):
        while chunk := content.read(CHUNK_BYTES):
            yield chunk


def begin(chunks: Generator[bytes]) -> Generator[bytes]:
    """Produce the first chunk now, so that an error before it is still an answer of its own."""
    first = next(chunks, None)

    def resume() -> Generator[bytes]:
        with closing(chunks):
            if first is not None:
                yield first
                yield from chunks

    following = resume()
    return following


async def stream(chunks: Generator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the chunks of a blocking generator, and close it when the client has gone too."""
    try:
        async for chunk in iterate_in_threadpool(chunks):
            yield chunk
    finally:
        with anyio.CancelScope(shield=True):
            await run_in_threadpool(chunks.close)
