"""Bodies of answers that are produced as they are sent."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import anyio
from fastapi.responses import StreamingResponse
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.types import Receive, Scope, Send


def begin(chunks: Generator[bytes]) -> Generator[bytes]:
    """Produce the first chunk now, so that an error before it still has its own answer."""
    first = next(chunks, None)

    def resume() -> Generator[bytes]:
        with closing(chunks):
            yield b""  # begun, so that closing this closes the chunks too
            if first is not None:
                yield first
                yield from chunks

    following = resume()
    next(following)
    return following


class BlockingStream(StreamingResponse):
    """An answer with the chunks of a blocking generator, which is closed at the end, also when the client has left."""

    def __init__(self, chunks: Generator[bytes], status_code: int = 200, *, media_type: str, headers: dict[str, str]):
        super().__init__(iterate_in_threadpool(chunks), status_code, headers, media_type)
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await run_in_threadpool(self._chunks.close)
