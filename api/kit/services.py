"""The container of the process's services: opened when the server starts, injected into routes, closed at the end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from core.errors import Unavailable
from core.identity.api_keys import KnownKeys
from core.infra.database import Database, open_database
from core.infra.rate_limits import IDLE_SECONDS, RateLimiter
from core.infra.settings import Settings
from core.infra.storage import open_storage
from core.infra.storage.protocol import Storage
from core.packages.service import PackageService
from core.projects.service import ProjectService
from core.sql.pool import Pool
from core.sql.queries import Queries

GARBAGE_THRESHOLD = 20_000  # allocations between collections; a single request already exceeds Python's 700


@dataclass(frozen=True, slots=True)
class Services:
    """One field per noun, plus what every request needs: settings, keys and rate limits."""

    settings: Settings
    database: Database
    storage: Storage
    keys: KnownKeys
    limiter: RateLimiter
    pool: Pool
    queries: Queries
    packages: PackageService
    projects: ProjectService

    def close(self) -> None:
        self.pool.close()
        with suppress(Unavailable):  # unused allowances expire within a minute anyway
            self.limiter.give_back()
        self.database.close()


def open_services(settings: Settings) -> Services:
    database, storage = open_database(settings), open_storage(settings)
    pool = Pool(settings.data.resolve() / "sql")
    return Services(
        settings=settings,
        database=database,
        storage=storage,
        keys=KnownKeys(database),
        limiter=RateLimiter(database, settings.requests_per_minute),
        pool=pool,
        queries=Queries(settings, database, storage, pool),
        packages=PackageService(settings, database, storage),
        projects=ProjectService(database),
    )


@asynccontextmanager
async def run_services(settings: Settings) -> AsyncGenerator[Services]:
    """Open the services, synchronize their caches in the background, and close them at the end."""
    services = open_services(settings)
    gc.freeze()  # modules and classes live as long as the process; collections need not visit them
    gc.set_threshold(GARBAGE_THRESHOLD)
    synchronization = asyncio.create_task(_synchronize(services))
    yield services
    synchronization.cancel()
    services.close()


async def _synchronize(services: Services) -> None:
    """Bring the process's caches of keys and rate limits in line with the other processes."""
    while True:
        await asyncio.sleep(IDLE_SECONDS)
        await run_in_threadpool(services.keys.forget_revoked)
        with suppress(Unavailable):  # unused allowances expire within a minute anyway
            await run_in_threadpool(services.limiter.give_back_scarce)


def get_services(request: Request) -> Services:
    return cast(Services, request.app.state.services)


async def _get_services(request: Request) -> Services:  # FastAPI runs dependencies that are not async in a thread
    return get_services(request)


ServicesOf = Annotated[Services, Depends(_get_services)]
