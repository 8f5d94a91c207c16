"""Whether the service is well: with a key for people, without one for probes."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from api.kit.auth import AnyKey, KeyRoute
from api.kit.errors import answers
from api.kit.schemas import Record
from api.kit.services import ServicesOf
from core.errors import Unavailable
from core.identity.api_keys import DEFAULT_ORGANIZATION
from core.identity.organizations import find_organization
from core.infra.database import Database

router = APIRouter(tags=["health"], route_class=KeyRoute)
probes = APIRouter(include_in_schema=False)


class Health(Record):
    status: Literal["UP"] = "UP"


@router.get("/health", summary="Health of the service", responses=answers(503))
def read_health(_caller: AnyKey, services: ServicesOf) -> Health:
    _check(services.database)
    return Health()


@probes.get("/livez")
async def livez() -> JSONResponse:
    """Needs no thread: a process whose threads are all busy is alive."""
    return JSONResponse({"status": "ok"})


@probes.get("/readyz")
def readyz(services: ServicesOf) -> JSONResponse:
    try:
        _check(services.database)
    except Unavailable:
        return JSONResponse({"status": "not ready"}, 503)
    return JSONResponse({"status": "ok"})


def _check(database: Database) -> None:
    """Raises Unavailable unless the database answers and has its tables."""
    with database.read() as session:
        find_organization(session, DEFAULT_ORGANIZATION)
