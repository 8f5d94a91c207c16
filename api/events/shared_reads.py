"""Reads of streams that follow the same record: one poll of the database serves all of them in this worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Poll(Generic[T]):
    task: asyncio.Task[T]
    at: float


class SharedReads(Generic[T]):
    """The last poll of every topic, which answers all requests within `seconds` of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._polls: dict[Hashable, _Poll[T]] = {}

    async def read(self, topic: Hashable, read: Callable[[], T]) -> T:
        """Return the result of `read`, which is called in a thread unless it has just been for the same topic."""
        loop = asyncio.get_running_loop()
        key = (id(loop), topic)
        poll = self._polls.get(key)
        if poll is None or loop.time() - poll.at >= self._seconds:
            poll = _Poll(asyncio.create_task(run_in_threadpool(read)), loop.time())
            self._polls[key] = poll
            loop.call_later(self._seconds, self._forget, key, poll)
        return await asyncio.shield(poll.task)  # a stream that is closed must not end the poll of the others

    def _forget(self, key: Hashable, poll: _Poll[T]) -> None:
        if self._polls.get(key) is poll:
            del self._polls[key]
