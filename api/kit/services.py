"""The container of the process's services: opened when the server starts, injected into routes, closed at the end."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, cast

import httpx
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from core.data.datasets.service import DatasetService
from core.data.files.process import open_file_reader
from core.data.sql.engine import SqlEngine
from core.data.sql.service import QueryService, open_sql_engine
from core.data.sql.stored.results import ResultReader, open_result_reader
from core.data.sql.stored.runner import QueryRunner
from core.data.sql.stored.service import StoredQueryService
from core.definitions.agents.shipped import add_all_shipped_agents, add_shipped_agents
from core.definitions.cron_jobs.scheduler import CronScheduler
from core.definitions.cron_jobs.scheduler_choice import open_cron_scheduler
from core.definitions.identity.api_keys import KeyCache
from core.definitions.identity.service import check_database
from core.definitions.library_versions.service import register_running
from core.definitions.plugins.uploads import PluginUploads
from core.infra.checks import Check
from core.infra.connection_pool import close_idle_connections
from core.infra.database import Database, open_database
from core.infra.files import check_folder
from core.infra.heartbeats import Heartbeats
from core.infra.installation import open_guarded_storage
from core.infra.rate_limits import RateLimiter
from core.infra.settings import Settings
from core.infra.storage.protocol import Storage
from core.integrations.oidc import SignInProvider
from core.integrations.packages.service import PackageService
from core.lifecycle.executions.service import ExecutionService
from core.lifecycle.executions.spark_page import SparkPages
from core.lifecycle.executions.waiting import ExecutionWaiter
from core.lifecycle.spark.service import SparkService
from core.training.service import TrainingService
from core.training.sources import SourceReader

KEY_REFRESH_SECONDS = 0.5
IDLE_SECONDS = 2.0  # of a connection to the Dagster UI, which closes it after five
GARBAGE_THRESHOLD = 20_000  # allocations between collections; a single request already exceeds Python's 700


@dataclass(frozen=True, slots=True)
class Services:
    """One field per noun, plus the needs of every request: settings, keys and rate limits."""

    settings: Settings
    database: Database
    storage: Storage
    keys: KeyCache
    limiter: RateLimiter
    cron_jobs: CronScheduler
    spark: SparkService
    sql_engine: SqlEngine
    datasets: DatasetService
    queries: QueryService
    query_runner: QueryRunner
    query_results: ResultReader
    stored_queries: StoredQueryService
    executions: ExecutionService
    execution_waiter: ExecutionWaiter
    spark_pages: SparkPages
    packages: PackageService
    training: TrainingService
    plugin_uploads: PluginUploads
    dagster: httpx.AsyncHTTPTransport
    """Connections to the port of the Dagster UI."""
    provider: SignInProvider | None
    """By whom people sign in; None where keys alone do."""
    needs: Sequence[Check]
    """Of the parts without which no request can be answered."""
    checks: Sequence[Check]
    """Of all parts."""

    def close(self) -> None:
        self.query_runner.close()
        self.query_results.close()
        self.sql_engine.close()
        self.keys.close()
        self.database.close()


def open_services(settings: Settings) -> Services:
    database = open_database(settings, settings.database.api_connections // settings.api.workers or 1)
    storage = open_guarded_storage(settings, database)
    sql_engine = open_sql_engine(settings, storage)
    keys, files = KeyCache(database), open_file_reader(settings)
    own = (
        Check("database", lambda: check_database(database), "unavailable"),
        Check("data folder", lambda: check_folder(settings.data, "data folder"), "storage-unavailable"),
    )
    loops = Check("background work", Heartbeats(settings.data).check_loops, "unavailable")
    queries = QueryService(settings, database, sql_engine)
    results = open_result_reader(settings, storage, sql_engine, files)
    runner = QueryRunner(settings, database, storage, sql_engine)
    datasets = DatasetService(settings, storage, files)
    sources = SourceReader(settings, database, storage, datasets, files)
    return Services(
        settings=settings,
        database=database,
        storage=storage,
        keys=keys,
        cron_jobs=open_cron_scheduler(settings),
        spark=SparkService(settings, database),
        limiter=RateLimiter(database, settings.api.requests_per_minute),
        sql_engine=sql_engine,
        datasets=datasets,
        queries=queries,
        query_runner=runner,
        query_results=results,
        stored_queries=StoredQueryService(settings, database, storage, queries, runner, results),
        executions=ExecutionService(database, settings, storage),
        execution_waiter=ExecutionWaiter(database),
        spark_pages=SparkPages(settings, database),
        packages=PackageService(settings, database, storage),
        training=TrainingService(settings, database, storage, sources),
        plugin_uploads=PluginUploads(settings, database, storage, add_shipped_agents),
        dagster=_open_dagster(),
        provider=SignInProvider(settings) if settings.oidc.issuer else None,
        needs=(*own, loops),
        checks=(
            *own,
            Check("storage", storage.check, "storage-unavailable"),
            Check("SQL engine", sql_engine.check, "trino-unavailable"),
            loops,
        ),
    )


@asynccontextmanager
async def run_services(settings: Settings) -> AsyncGenerator[Services]:
    """Open the services, synchronize their caches in the background, and close them at the end."""
    services = open_services(settings)
    gc.freeze()  # modules and classes live as long as the process; collections need not visit them
    gc.set_threshold(GARBAGE_THRESHOLD)
    await run_in_threadpool(register_running, services.database)
    await run_in_threadpool(add_all_shipped_agents, services.database)
    services.query_runner.start()
    synchronization = asyncio.create_task(_synchronize(services))
    yield services
    synchronization.cancel()
    await services.dagster.aclose()
    services.close()


def _open_dagster() -> httpx.AsyncHTTPTransport:
    no_certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to load them takes 15 ms, and loopback has no TLS
    return httpx.AsyncHTTPTransport(no_certificates, limits=httpx.Limits(keepalive_expiry=IDLE_SECONDS))


async def _synchronize(services: Services) -> None:
    """Remove keys from the cache that other processes have revoked, and close connections that nobody uses."""
    while True:
        await asyncio.sleep(KEY_REFRESH_SECONDS)
        await run_in_threadpool(services.keys.remove_revoked)
        close_idle_connections()


def get_services(request: HTTPConnection) -> Services:
    return cast(Services, request.app.state.services)


async def _get_services(request: Request) -> Services:  # FastAPI runs dependencies that are not async in a thread
    return get_services(request)


ServicesOf = Annotated[Services, Depends(_get_services)]
