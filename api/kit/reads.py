"""Reads of records by their ids: those that wait at the same moment are one statement."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import RowMapping
from starlette.concurrency import run_in_threadpool

from core.errors import Unavailable
from core.infra.database import AWAY, STATEMENT_TIMEOUT_MS, Database
from core.infra.repository import Ids, Repository

MOST = 64  # records of one statement, which are in memory together
LATE_SECONDS = 1.0
MOST_LATE = 8  # statements of a noun; each holds a thread and a connection, which others need too

Noun = type[Repository[Any]]
Waiting = tuple[Ids, asyncio.Future[RowMapping | None]]
Answering = asyncio.Task[None]


class Reads:
    """The reads of one worker. Of each noun, one statement is under way at a time, and some that are late.

    It begins as soon as the event loop comes to it, so one read alone waits for nobody. Who comes while it is under way
    waits for the next one: it need not see what has been committed by then. One that is late, as over a connection that
    has gone silent, is left to itself: the next begins over another connection.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: defaultdict[Noun, list[Waiting]] = defaultdict(list)
        self._under_way: dict[Noun, Answering] = {}
        self._late: defaultdict[Noun, set[Answering]] = defaultdict(set)

    async def read(self, noun: Noun, *ids: str) -> RowMapping:
        """The record with these ids, which are values of the noun's `named_by`; raises NotFound or Unavailable."""
        answer: asyncio.Future[RowMapping | None] = asyncio.get_running_loop().create_future()
        self._waiting[noun].append((ids, answer))
        self._begin(noun)
        return noun.known(await answer)

    def _begin(self, noun: Noun) -> None:
        if self._waiting[noun] and noun not in self._under_way and len(self._late[noun]) < MOST_LATE:
            self._under_way[noun] = asyncio.create_task(self._answer_all(noun))
            self._under_way[noun].add_done_callback(partial(self._ended, noun))

    def _ended(self, noun: Noun, answering: Answering) -> None:
        self._late[noun].discard(answering)
        if self._under_way.get(noun) is answering:
            del self._under_way[noun]
        if answering.cancelled():
            _refuse(self._waiting.pop(noun, ()), Unavailable(AWAY))
        self._begin(noun)

    def _leave(self, noun: Noun, answering: Answering) -> None:
        self._late[noun].add(self._under_way.pop(noun))
        asyncio.get_running_loop().call_later(STATEMENT_TIMEOUT_MS / 1000, answering.cancel)
        self._begin(noun)

    async def _answer_all(self, noun: Noun) -> None:
        answering = self._under_way[noun]
        while self._under_way.get(noun) is answering and (waiting := self._waiting[noun][:MOST]):
            del self._waiting[noun][:MOST]
            leaving = asyncio.get_running_loop().call_later(LATE_SECONDS, self._leave, noun, answering)
            try:
                await self._answer(noun, waiting)
            finally:
                leaving.cancel()

    async def _answer(self, noun: Noun, waiting: Sequence[Waiting]) -> None:
        try:
            found = await run_in_threadpool(noun.read, self._database, {ids for ids, _ in waiting})
        except asyncio.CancelledError:  # it never answered, or the server ends
            _refuse(waiting, Unavailable(AWAY))
            raise
        except Exception as error:  # each of those who wait raises it
            if isinstance(error, Unavailable):  # who came meanwhile is not to wait as long again
                waiting = [*waiting, *self._waiting.pop(noun, ())]
            _refuse(waiting, error)
            return
        for ids, answer in _unanswered(waiting):
            answer.set_result(found.get(ids))


def _refuse(waiting: Sequence[Waiting], error: Exception) -> None:
    for _, answer in _unanswered(waiting):
        answer.set_exception(error)


def _unanswered(waiting: Sequence[Waiting]) -> Sequence[Waiting]:
    """Without those whose clients have gone."""
    return [each for each in waiting if not each[1].done()]
