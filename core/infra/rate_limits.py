"""The rate limit: requests per API key and clock minute, never more than the limit over all processes.

A process counts blocks of requests in the database and spends them from memory (docs/adr: an UPSERT per request costs
more than the request). Near the limit a block is one request, so at most BLOCK - 1 requests of a key remain unspent in
a process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from sqlalchemy import delete, text

from core.errors import TooMany
from core.infra.database import Database
from core.infra.settings.service import REQUESTS_PER_MINUTE
from core.tables import RateCounter

BLOCK = 20
MINUTE_SECONDS = 60
# one statement for both databases; as text because SQLAlchemy compiles an ON CONFLICT again for every call
COUNT = text(
    "INSERT INTO rate_counters (key_id, minute, requests) VALUES (:key_id, :minute, :requests)"
    " ON CONFLICT (key_id, minute) DO UPDATE SET requests = rate_counters.requests + excluded.requests"
    " WHERE rate_counters.requests + excluded.requests <= :limit RETURNING requests"
)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The values of the RateLimit headers."""

    limit: int
    remaining: int
    reset_seconds: int


@dataclass(slots=True)
class _Block:
    """Requests of a key that this process has counted and not spent; `uncounted` are left for all processes."""

    minute: int
    unspent: int = 0
    uncounted: int = 0
    refill: Lock = field(default_factory=Lock)


class RateLimiter:
    """The limit as one process applies it. `spend` uses memory only, `admit` may use the database."""

    def __init__(self, database: Database, limit: int = REQUESTS_PER_MINUTE) -> None:
        self._database = database
        self._limit = limit
        self._lock = Lock()
        self._blocks: dict[str, _Block] = {}

    def spend(self, key_id: str, at: datetime) -> Allowance | None:
        """Take one request from the key's block; return None when the block is empty or of an earlier minute."""
        minute, second = divmod(int(at.timestamp()), MINUTE_SECONDS)
        with self._lock:
            block = self._blocks.get(key_id)
            if block is None or block.minute < minute or not block.unspent:
                return None
            block.unspent -= 1
            return Allowance(self._limit, block.uncounted + block.unspent, MINUTE_SECONDS - second)

    def admit(self, key_id: str, at: datetime) -> Allowance:
        """Count one request; raise TooMany, with the seconds to the next minute, when the key has none left."""
        minute, second = divmod(int(at.timestamp()), MINUTE_SECONDS)
        with self._lock:
            block = self._blocks.get(key_id)
            if block is None or block.minute < minute:
                block = self._blocks[key_id] = _Block(minute)
        with block.refill:  # concurrent requests of the key share one block
            if (allowance := self.spend(key_id, at)) is not None:
                return allowance
            if not self._fill(key_id, block):
                sentence = f"This API key has made {self._limit} requests in this minute, which is the limit."
                raise TooMany(sentence, MINUTE_SECONDS - second)
            return Allowance(self._limit, block.uncounted + block.unspent, MINUTE_SECONDS - second)

    def _fill(self, key_id: str, block: _Block) -> bool:
        """Count a block, or a single request where a block exceeds the limit, and spend one of it."""
        for requests in (min(BLOCK, block.uncounted // BLOCK), 1):
            if requests < 1:
                continue
            counted = self._count(key_id, block.minute, requests)
            if counted is not None:
                with self._lock:
                    block.unspent, block.uncounted = requests - 1, self._limit - counted
                return True
        return False

    def _count(self, key_id: str, minute: int, requests: int) -> int | None:
        """Return the key's requests in this minute, these included; None, without counting, beyond the limit."""
        with self._database.write(durable=False) as session:
            values = {"key_id": key_id, "minute": minute, "requests": requests, "limit": self._limit}
            counted = session.scalar(COUNT, values)
            if counted == requests:
                session.execute(delete(RateCounter).where(RateCounter.key_id == key_id, RateCounter.minute < minute))
        return counted
