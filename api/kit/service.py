"""What the endpoints work on: made when the server starts, closed when it ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from api.kit.reads import Reads
from core.errors import Unavailable
from core.identity.api_keys import KnownKeys
from core.infra.database import Database, open_database
from core.infra.rate_limits import IDLE_SECONDS, RateLimiter
from core.infra.settings import Settings
from core.sql.pool import Pool
from core.sql.queries import Queries

GARBAGE_THRESHOLD = 20_000  # objects; Python's 700 are the making of a request or two


@dataclass(frozen=True, slots=True)
class Service:
    """One server's settings, database, callers and query processes."""

    settings: Settings
    database: Database
    keys: KnownKeys
    limiter: RateLimiter
    pool: Pool
    queries: Queries
    reads: Reads

    def close(self) -> None:
        self.pool.close()
        with suppress(Unavailable):  # what is not given back is over with its minute
            self.limiter.give_back()
        self.database.close()


def open_service(settings: Settings) -> Service:
    database, pool = open_database(settings), Pool(settings.data.resolve() / "sql")
    keys, limiter = KnownKeys(database), RateLimiter(database, settings.requests_per_minute)
    return Service(settings, database, keys, limiter, pool, Queries(settings, database, pool), Reads(database))


@asynccontextmanager
async def running_service(settings: Settings) -> AsyncGenerator[Service]:
    service = open_service(settings)
    gc.freeze()  # what was loaded stays, and is not worth a look at every collection
    gc.set_threshold(GARBAGE_THRESHOLD)
    catching_up = asyncio.create_task(_catch_up(service))
    yield service
    catching_up.cancel()
    service.close()


async def _catch_up(service: Service) -> None:
    """What this process keeps in memory about callers is brought together with what other processes do."""
    while True:
        await asyncio.sleep(IDLE_SECONDS)
        await run_in_threadpool(service.keys.forget_revoked)
        with suppress(Unavailable):  # what cannot be given back now is over with its minute
            await run_in_threadpool(service.limiter.give_back_scarce)


def service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)


async def _service(request: Request) -> Service:  # a plain function would be run in a thread
    return service_of(request)


ServiceOf = Annotated[Service, Depends(_service)]
