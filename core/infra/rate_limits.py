"""The rate limit: so many requests per API key and clock minute, exact over all processes.

A request is not worth a write of its own: while a key has much left, a process counts a share of it in advance and
spends that from memory. The share shrinks with what is left, and the last quarter is counted one by one, so that nobody
is refused for what another process holds; once a quarter is used, what is not spent within half a second is given
back. Before that nobody can miss it, and giving it back would cost a key that calls once a second a write each time.
"""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from sqlalchemy import delete, select, text, update

from core.errors import TooMany
from core.infra.database import Database, again, changed
from core.infra.settings import REQUESTS_PER_MINUTE
from core.tables import RateCounter

SHARE = 16  # a process takes this part of what may be counted in advance
ONE_BY_ONE = 4  # and leaves this part of the limit
SCARCE = 4  # with this part of the limit used, idle reserves are given back
IDLE_SECONDS = 0.5
MINUTE_SECONDS = 60
# the same on both databases; as text because SQLAlchemy compiles an ON CONFLICT anew for every call
COUNT = text(
    "INSERT INTO rate_counters (key_id, minute, requests) VALUES (:key_id, :minute, :requests)"
    " ON CONFLICT (key_id, minute) DO UPDATE SET requests = rate_counters.requests + excluded.requests"
    " WHERE rate_counters.requests + excluded.requests <= :limit RETURNING requests"
)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the RateLimit headers tell."""

    limit: int
    remaining: int
    reset_seconds: int


@dataclass(slots=True)
class _Reserve:
    """What this process has counted for a key in a minute: `left` is not spent yet, `counted` is over all processes."""

    minute: int
    counted: int | None = None
    left: int = 0
    used: float = field(default_factory=time.monotonic)
    turn: Lock = field(default_factory=Lock)


class RateLimiter:
    """One process's part of the limit. `spend` needs no database, `admit` may."""

    def __init__(self, database: Database, limit: int = REQUESTS_PER_MINUTE) -> None:
        self._database = database
        self._limit = limit
        self._lock = Lock()
        self._reserves: dict[str, _Reserve] = {}

    def spend(self, key_id: str, at: datetime) -> Allowance | None:
        """Counts one request from what this process has in reserve; None when it has nothing."""
        minute, second = divmod(int(at.timestamp()), MINUTE_SECONDS)
        with self._lock:
            reserve = self._reserves.get(key_id)
            if reserve is None or reserve.minute != minute or not reserve.left or reserve.counted is None:
                return None
            reserve.left -= 1
            reserve.used = time.monotonic()
            return Allowance(self._limit, self._limit - reserve.counted + reserve.left, MINUTE_SECONDS - second)

    def admit(self, key_id: str, at: datetime) -> Allowance:
        """Counts one request; raises TooMany, with the seconds to the next minute, when the key has none left."""
        minute, second = divmod(int(at.timestamp()), MINUTE_SECONDS)
        reserve = self._reserve(key_id, minute)
        with reserve.turn:  # one thread fills the reserve, the others spend it
            if (allowance := self.spend(key_id, at)) is not None:
                return allowance
            counted = self._fill(key_id, reserve)
        if counted is None:
            sentence = f"This API key has made {self._limit} requests in this minute, which is the limit."
            raise TooMany(sentence, MINUTE_SECONDS - second)
        return Allowance(self._limit, self._limit - counted + reserve.left, MINUTE_SECONDS - second)

    def give_back_scarce(self) -> None:
        """Returns what lies idle of the keys that other processes could refuse for it."""
        self._take_idle(time.monotonic() - MINUTE_SECONDS, None)  # whose minute is over is not worth a write
        if not self._reserves:
            return
        many = select(RateCounter.key_id).where(RateCounter.requests >= self._limit // SCARCE)
        with self._database.read() as session:
            scarce = frozenset(session.scalars(many))
        self.give_back(IDLE_SECONDS, scarce)

    def give_back(self, idle_seconds: float = 0, keys: Container[str] | None = None) -> None:
        """Returns what keys, or these keys, have not spent of this process's reserve for so long."""
        idle = self._take_idle(time.monotonic() - idle_seconds, keys)
        if not idle:
            return
        with self._database.brief() as session:
            for key_id, reserve in idle:
                counter = (RateCounter.key_id == key_id, RateCounter.minute == reserve.minute)
                returned = {"requests": RateCounter.requests - reserve.left}
                changed(session, update(RateCounter).where(*counter).values(returned))

    def _reserve(self, key_id: str, minute: int) -> _Reserve:
        with self._lock:
            reserve = self._reserves.get(key_id)
            if reserve is not None and reserve.minute > minute:
                return _Reserve(minute)  # a straggler; what is held for the minute after must not be lost
            if reserve is None or reserve.minute < minute:
                reserve = self._reserves[key_id] = _Reserve(minute)
            reserve.used = time.monotonic()
            return reserve

    def _fill(self, key_id: str, reserve: _Reserve) -> int | None:
        """Counts a request and a share more; None when the key has no request left."""
        share = self._share(reserve.counted)
        counted = self._count(key_id, reserve.minute, share)
        if counted is None and share > 1:
            share, counted = 1, self._count(key_id, reserve.minute, 1)
        if counted is not None:
            with self._lock:
                reserve.counted, reserve.left = counted, share - 1
        return counted

    def _share(self, counted: int | None) -> int:
        """What to count next; one where nothing is known yet of the key in this minute."""
        if counted is None:
            return 1
        return max(1, (self._limit - self._limit // ONE_BY_ONE - counted) // SHARE)

    def _take_idle(self, before: float, keys: Container[str] | None) -> list[tuple[str, _Reserve]]:
        with self._lock:
            found = [each for each in self._reserves.items() if keys is None or each[0] in keys]
            # one that is being filled is in use, however long the database takes
            idle = [each for each in found if each[1].used < before and not each[1].turn.locked()]
            for key_id, _ in idle:
                del self._reserves[key_id]
        return [(key_id, reserve) for key_id, reserve in idle if reserve.left]

    def _count(self, key_id: str, minute: int, requests: int) -> int | None:
        """All requests of the key in this minute with these; None, and nothing counted, when they are too many.

        Where a connection was cut they may have been counted twice, which admits fewer and never more.
        """
        return again(lambda: self._count_once(key_id, minute, requests))

    def _count_once(self, key_id: str, minute: int, requests: int) -> int | None:
        with self._database.brief() as session:
            values = {"key_id": key_id, "minute": minute, "requests": requests, "limit": self._limit}
            counted = session.scalar(COUNT, values)
            if counted == requests:
                changed(session, delete(RateCounter).where(RateCounter.key_id == key_id, RateCounter.minute < minute))
        return counted
