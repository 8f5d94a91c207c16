"""The application: every noun's routes under the configured paths."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool

from api.agents import endpoints as agents
from api.agents import trials
from api.audit import endpoints as audit
from api.backfills import endpoints as backfills
from api.categories import endpoints as categories
from api.console import sign_in as console
from api.credentials import endpoints as cloud_credentials
from api.cron_jobs import endpoints as cron_jobs
from api.datasets import endpoints as datasets
from api.declarations import endpoints as declarations
from api.events import endpoints as events
from api.executions import completion
from api.executions import endpoints as executions
from api.generic_tables import endpoints as generic_tables
from api.health import endpoints as health
from api.identity import endpoints as auth
from api.jobs import endpoints as jobs
from api.kit import docs, errors
from api.kit.audit import AuditLog
from api.kit.errors import answers
from api.kit.middleware import AccessLog, EncodedSlashes, HeadRequests, RateHeaders, SizeLimits
from api.kit.multipart import FORM_BYTES
from api.kit.openapi import describe, make_operation_id
from api.kit.request_metrics import RequestMetrics
from api.kit.services import run_services
from api.library_versions import endpoints as library_versions
from api.metrics import endpoints as metrics
from api.notifications import endpoints as notifications
from api.packages import endpoints as packages
from api.people import endpoints as people
from api.plugins import endpoints as plugins
from api.plugins.routes import include_plugins, migrate_plugins
from api.pools import endpoints as pools
from api.projects import endpoints as projects
from api.python_extensions import endpoints as python_extensions
from api.schedules import endpoints as schedules
from api.selectors import endpoints as selectors
from api.spark import endpoints as spark
from api.sql import endpoints as sql
from api.sql import stored_queries
from api.stages import endpoints as catalog
from api.tasks import endpoints as tasks
from api.training import endpoints as training
from api.web_pages import endpoints as html
from api.webhooks import endpoints as webhooks
from core.infra.settings import Settings
from core.infra.version import API_VERSION
from core.infra.wheels import MAX_BYTES
from core.integrations.packages.archive import MAX_PACKAGE

DESCRIPTION = "YAML pipelines that turn web pages and files into datasets you can query with SQL."
EVERYWHERE = answers(400, 401, 403, 429, 500, 503)


def create_app(settings: Settings) -> FastAPI:
    """The service with these settings; opens its database and query processes when it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        await run_in_threadpool(migrate_plugins, settings)
        async with run_services(settings) as app.state.services:
            yield

    app = FastAPI(
        title="Spindle",
        version=API_VERSION,
        description=DESCRIPTION,
        openapi_url=f"{settings.api.root_path}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # not used, and else looked for at every request
        generate_unique_id_function=make_operation_id,
        lifespan=lifespan,
    )
    errors.install(app)
    console.install(app)
    docs.install(app, settings.api.root_path)
    app.include_router(health.probes)
    app.include_router(health.metrics)
    app.include_router(health.router, prefix=settings.api.root_path, responses=EVERYWHERE)
    service = f"{settings.api.root_path}/{settings.api.service_segment}/api"
    _include_service(app, service)
    app.include_router(packages.links, prefix=service)
    cloud = f"{settings.api.root_path}/{settings.api.service_segment}/cloud"
    for router in (cron_jobs.router, spark.router, training.cloud):
        app.include_router(router, prefix=cloud, responses=EVERYWHERE)
    tables = f"{settings.api.root_path}/api/{settings.api.tables_segment}"
    app.include_router(generic_tables.router, prefix=tables, responses=EVERYWHERE)
    served = include_plugins(app, service)
    acting = f"{service}{packages.PREFIX}/"
    app.add_middleware(AuditLog, acting=acting)
    app.add_middleware(EncodedSlashes)
    app.add_middleware(HeadRequests, acting=acting)
    app.add_middleware(RateHeaders)
    uploads = f"{service}{datasets.router.prefix}{datasets.UPLOAD}"
    wheels = [f"{each.router.prefix}{each.UPLOAD}" for each in (plugins, library_versions)]
    larger = {re.escape(f"{service}{packages.LINKS}/"): MAX_PACKAGE}
    larger |= dict.fromkeys((re.escape(uploads), *served.uploads), settings.files.upload_bytes + FORM_BYTES)
    larger |= {re.escape(f"{service}{path}"): MAX_BYTES + FORM_BYTES for path in wheels}
    app.add_middleware(SizeLimits, larger=larger)
    app.state.requests = RequestMetrics()
    app.add_middleware(AccessLog, metrics=app.state.requests)
    describe(app, settings, served.descriptions)
    return app


def _include_service(app: FastAPI, prefix: str) -> None:
    """Include all routers in the application itself, the busiest first: Starlette tries one after the other."""
    by_id, short = f"{prefix}/projects/id/{{projectId}}", f"{prefix}/projects/{{projectId}}"
    app.include_router(projects.router, prefix=prefix, responses=EVERYWHERE)
    for router in (jobs.router, executions.router, tasks.router, completion.router, backfills.router):
        _include_twice(app, router, by_id, undocumented=short)
    _include_python_extensions(app, prefix)
    routers = [
        *(categories.router, agents.router, trials.router, pools.router, catalog.router, tasks.administration),
        *(
            sql.task_router,
            sql.router,
            stored_queries.router,
            datasets.router,
            html.router,
            people.router,
            auth.router,
            audit.router,
            cloud_credentials.router,
            selectors.router,
        ),
        *(
            declarations.router,
            packages.router,
            metrics.router,
            executions.organization_router,
            training.router,
            plugins.router,
            library_versions.router,
        ),
    ]
    for router in routers:
        app.include_router(router, prefix=prefix, responses=EVERYWHERE)
    for router in (schedules.router, webhooks.router, notifications.router, events.router, metrics.project_router):
        _include_twice(app, router, by_id, undocumented=short)
    for router in (sql.job_router, metrics.execution_router):
        _include_twice(app, router, short, undocumented=by_id)


def _include_python_extensions(app: FastAPI, prefix: str) -> None:
    """Include the extensions' routes with and without a prefix of their own, before the agents' similar paths."""
    own_prefix = f"{prefix}{python_extensions.PREFIX}"
    app.include_router(python_extensions.about, prefix=own_prefix, responses=EVERYWHERE)
    _include_twice(app, python_extensions.router, own_prefix, undocumented=prefix)


def _include_twice(app: FastAPI, router: APIRouter, prefix: str, *, undocumented: str) -> None:
    """Include the router under both prefixes; the OpenAPI file lists the first, as the specification does."""
    app.include_router(router, prefix=prefix, responses=EVERYWHERE)
    app.include_router(router, prefix=undocumented, responses=EVERYWHERE, include_in_schema=False)
