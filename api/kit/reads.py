"""Reads of records by their ids: those that wait at the same moment are one statement."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import RowMapping
from starlette.concurrency import run_in_threadpool

from core.database import Database
from core.errors import Unavailable
from core.repository import Ids, Repository

MOST = 64  # records of one statement, which are in memory together

Noun = type[Repository[Any]]
Waiting = tuple[Ids, asyncio.Future[RowMapping | None]]


class Reads:
    """The reads of one worker. Of each noun, one statement is under way at a time.

    It begins as soon as the event loop comes to it, so one read alone waits for nobody. Who comes while it is under way
    waits for the next one: it need not see what has been committed by then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: defaultdict[Noun, list[Waiting]] = defaultdict(list)
        self._under_way: dict[Noun, asyncio.Task[None]] = {}

    async def read(self, noun: Noun, *ids: str) -> RowMapping:
        """The record with these ids, which are values of the noun's `named_by`; raises NotFound or Unavailable."""
        answer: asyncio.Future[RowMapping | None] = asyncio.get_running_loop().create_future()
        self._waiting[noun].append((ids, answer))
        if noun not in self._under_way:
            self._under_way[noun] = asyncio.create_task(self._answer_all(noun))
        return noun.known(await answer)

    async def _answer_all(self, noun: Noun) -> None:
        try:
            while waiting := self._waiting[noun][:MOST]:
                del self._waiting[noun][:MOST]
                await self._answer(noun, waiting)
        finally:
            del self._under_way[noun]

    async def _answer(self, noun: Noun, waiting: Sequence[Waiting]) -> None:
        try:
            found = await run_in_threadpool(noun.read, self._database, {ids for ids, _ in waiting})
        except Exception as error:  # each of those who wait raises it
            if isinstance(error, Unavailable):  # who came meanwhile is not to wait as long again
                waiting = [*waiting, *self._waiting.pop(noun, ())]
            for _, answer in _unanswered(waiting):
                answer.set_exception(error)
            return
        for ids, answer in _unanswered(waiting):
            answer.set_result(found.get(ids))


def _unanswered(waiting: Sequence[Waiting]) -> Sequence[Waiting]:
    """Without those whose clients have gone."""
    return [each for each in waiting if not each[1].done()]
