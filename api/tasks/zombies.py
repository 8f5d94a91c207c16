"""Giving up what has been running for too long."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from api.kit.auth import Admin, KeyRoute
from api.kit.services import ServicesOf
from api.tasks.schemas import ZombieCleanup, zombie_cleanup
from core.executions.zombies import LONGEST_HOURS, mark_zombies
from core.tables import now

router = APIRouter(prefix="/projects/admin/tasks", tags=["tasks"], route_class=KeyRoute)
DEFAULT_HOURS = 24


@router.post("/mark-zombies", summary="Fail what has been running for longer than a number of hours")
def mark_zombie_tasks(
    caller: Admin,
    services: ServicesOf,
    timeout_hours: Annotated[
        int, Query(alias="timeoutHours", json_schema_extra={"minimum": 0, "maximum": LONGEST_HOURS})
    ] = DEFAULT_HOURS,
) -> ZombieCleanup:
    return zombie_cleanup(mark_zombies(services.database, caller.organization_id, timeout_hours, now()))
