"""Health: one operation with a key for people, and probes without a key for orchestrators."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from api.health.prometheus import write_metrics
from api.kit.auth import AnyKey, KeyRoute, SuperAdmin
from api.kit.schemas import Record
from api.kit.services import ServicesOf
from core.definitions.identity.roles import SUPER_ADMIN
from core.errors import Unavailable
from core.infra.checks import run_checks
from core.infra.heartbeats import Heartbeats
from core.infra.instances import get_instance_id, list_instances

CHECK_SECONDS = 0.8
READY_SECONDS = 5.0
router = APIRouter(tags=["health"], route_class=KeyRoute)
probes = APIRouter(include_in_schema=False)
metrics = APIRouter(include_in_schema=False, route_class=KeyRoute)


class InstanceHealth(Record):
    id: str
    """Id that it has until it stops."""
    name: str | None
    """Its host and data folder, for a super_admin's key."""
    version: str
    """The version of its code."""
    leads: bool
    """Whether it does what one instance does for all: it fires schedules and cleans up."""
    started_at: datetime
    """When it joined."""
    seen_at: datetime
    """When it renewed its lease last."""


class Health(Record):
    status: Literal["UP"] = "UP"
    """`UP`; another state is answered with 503."""
    instance: str
    """The instance that answers."""
    instances: list[InstanceHealth]
    """All instances on one PostgreSQL database; beside SQLite there is one, which is not listed."""


@router.get("/health", summary="Health of the service")
def read_health(caller: AnyKey, services: ServicesOf) -> Health:
    """Return `UP` when the service, its database, its data folder, its storage and its SQL engine work.

    The answer takes at most a second; `details` names the parts that do not work, or do not answer.

    Orchestrators probe `/livez` and `/readyz`, which are outside the root path and need no key.
    """
    run_checks(services.checks, CHECK_SECONDS)
    with services.database.read() as session:
        found = list_instances(session)
    shows_names = caller.may(SUPER_ADMIN)
    return Health(
        instance=get_instance_id(services.settings.data),
        instances=[InstanceHealth.from_row(each, name=each.name if shows_names else None) for each in found],
    )


@probes.get("/livez")
async def check_liveness() -> JSONResponse:
    """Answer on the event loop: a process whose threads are all busy is alive."""
    return JSONResponse({"status": "ok"})


@probes.get("/readyz")
def check_readiness(services: ServicesOf) -> JSONResponse:
    try:
        run_checks(services.needs, READY_SECONDS)
    except Unavailable as error:
        return JSONResponse({"status": "not ready", "reason": error.sentence}, 503)
    data = services.settings.data
    return JSONResponse({"status": "ok", "instance": get_instance_id(data), "leads": Heartbeats(data).leads})


@metrics.get("/metrics")
def read_metrics(_caller: SuperAdmin, request: Request, services: ServicesOf) -> Response:
    """Answer a scrape of Prometheus; metrics are of all organizations, so the key is a super_admin's."""
    return Response(write_metrics(services, request.app.state.requests), media_type=CONTENT_TYPE_PLAIN_0_0_4)
