"""Partitions of a job: which are there, and executions of many of them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BeforeValidator

from api.backfills.schemas import (
    BackfillDetails,
    BackfillRecord,
    build_backfill,
    build_backfill_details,
)
from api.kit.auth import Executor, KeyRoute, Reader
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.schemas import JobId, ProjectId
from api.kit.sessions import ReadSession, WriteSession
from core.lifecycle.backfills import service as backfills
from core.lifecycle.backfills.models import BackfillCreate, PartitionRecord

BackfillId = Annotated[str, Path(alias="backfillId", description="Id of the backfill.")]
PartitionState = Annotated[
    Literal["PRESENT", "MISSING", "RUNNING", "FAILED"] | None,
    BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value),
    Query(description="Only the partitions in this state."),
]
router = APIRouter(prefix="/jobs/{jobId}", tags=["partitions"], route_class=KeyRoute)


@router.get("/partitions", summary="List the partitions of a job", responses=answers(404))
def list_partitions(
    project_id: ProjectId, job_id: JobId, caller: Reader, session: ReadSession, state: PartitionState = None
) -> list[PartitionRecord]:
    """Return the partitions that have closed with their state in the job's dataset, the oldest first."""
    return [*backfills.list_partitions(session, caller, project_id, job_id, state)]


@router.post("/backfills", dependencies=[REPLAYED], summary="Execute many partitions", responses=answers(404, 409))
def create_backfill(
    project_id: ProjectId, job_id: JobId, body: BackfillCreate, caller: Executor, session: WriteSession
) -> BackfillDetails:
    """Execute these partitions once, within the project's slots, and return at once.

    A partition that is being executed already waits for that. A backfill continues after a restart of the service.
    """
    return build_backfill_details(backfills.create(session, caller, project_id, job_id, body))


@router.get("/backfills", summary="List the backfills of a job, newest first", responses=answers(404))
def list_backfills(
    project_id: ProjectId, job_id: JobId, caller: Reader, session: ReadSession, page: PageOf
) -> list[BackfillRecord]:
    """Return the job's backfills with the numbers of their partitions by state."""
    found = backfills.list_backfills(session, caller, project_id, job_id, limit=page.limit, before=page.after)
    page.link([each.backfill.id for each in found])
    return [build_backfill(each) for each in found]


@router.get("/backfills/{backfillId}", summary="Read a backfill", responses=answers(404))
def read_backfill(
    project_id: ProjectId, job_id: JobId, backfill_id: BackfillId, caller: Reader, session: ReadSession
) -> BackfillDetails:
    """Return a backfill with its partitions and their executions."""
    return build_backfill_details(backfills.get(session, caller, project_id, job_id, backfill_id))


@router.post("/backfills/{backfillId}/cancel", summary="Cancel a backfill", responses=answers(404))
def cancel_backfill(
    project_id: ProjectId, job_id: JobId, backfill_id: BackfillId, caller: Executor, session: WriteSession
) -> BackfillDetails:
    """Cancel the backfill's executions that have not ended, and begin no further ones."""
    return build_backfill_details(backfills.cancel(session, caller, project_id, job_id, backfill_id))
