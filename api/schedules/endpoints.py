"""The schedules of a project, one without a name and others by name: read and change them, and their history."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import Nothing, ProjectId
from api.kit.sessions import ReadSession, WriteSession
from api.schedules.schemas import (
    ScheduleRecord,
    TickRecord,
    build_schedule_record,
    build_tick_record,
)
from core.definitions.schedules import service as schedules
from core.definitions.schedules.models import ScheduleCreate, ScheduleUpdate

router = APIRouter(tags=["schedules"], route_class=KeyRoute)
ScheduleName = Annotated[str, Path(alias="scheduleName", description="Name of the schedule, such as `nightly`.")]


@router.get("/schedule", summary="Read the schedule of a project", responses={**TAGGED, **answers(404)})
def read_schedule(project_id: ProjectId, caller: Reader, session: ReadSession, response: Response) -> ScheduleRecord:
    """Return the schedule with its next ticks and its last one. A project that never had one has the defaults."""
    return build_schedule_record(set_etag(response, schedules.get(session, caller, project_id)))


@router.put(
    "/schedule",
    summary="Change the schedule of a project; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 412)},
)
def update_schedule(
    project_id: ProjectId,
    body: ScheduleUpdate,
    caller: Writer,
    session: WriteSession,
    if_match: IfMatch,
    response: Response,
) -> ScheduleRecord:
    """Change the fields that the body has; an empty `cronSchedule` removes the schedule.

    The cron expression has five fields with names, ranges, lists and steps, or is a word such as `@daily`. Quartz's
    six fields are accepted when the seconds are 0. At a tick the jobs are executed once, and wait for a free
    slot. A job that reads the output of another one of the tick waits for it. In the hour that a change of the clock
    skips, fixed times fire at the next valid minute; in the one that occurs twice, they fire once.
    """
    return build_schedule_record(set_etag(response, schedules.update(session, caller, project_id, body, if_match)))


@router.get("/schedule/ticks", summary="List the ticks of a project's schedule, newest first", responses=answers(404))
def list_ticks(project_id: ProjectId, caller: Reader, session: ReadSession, page: PageOf) -> list[TickRecord]:
    """Return the ticks of the last 90 days, the newest first, with the execution or the reason for each job.

    With `limit` the answer is a page, and the `Link` header has the next one.
    """
    ticks = schedules.list_ticks(session, caller, project_id, limit=page.limit, before=page.after)
    page.link([each.tick.id for each in ticks])
    return [build_tick_record(each) for each in ticks]


@router.get("/schedules", summary="List the schedules of a project", responses=answers(404))
def list_schedules(project_id: ProjectId, caller: Reader, session: ReadSession) -> list[ScheduleRecord]:
    """Return the schedule without a name, which has the defaults at first, and the others by name."""
    return [build_schedule_record(each) for each in schedules.list_of_project(session, caller, project_id)]


@router.post(
    "/schedules",
    dependencies=[REPLAYED],
    summary="Create a schedule with a name",
    responses={**TAGGED, **answers(404, 409)},
)
def create_schedule(
    project_id: ProjectId, body: ScheduleCreate, caller: Writer, session: WriteSession, response: Response
) -> ScheduleRecord:
    """Store a schedule with its times. It may name one job, and parameters for its executions.

    The name has small letters, digits and single `_`; Dagster shows it behind the project's.
    """
    return build_schedule_record(set_etag(response, schedules.create(session, caller, project_id, body)))


@router.get("/schedules/{scheduleName}", summary="Read a schedule by its name", responses={**TAGGED, **answers(404)})
def read_named_schedule(
    project_id: ProjectId, schedule_name: ScheduleName, caller: Reader, session: ReadSession, response: Response
) -> ScheduleRecord:
    """Return the schedule with its next ticks and its last one."""
    return build_schedule_record(set_etag(response, schedules.get(session, caller, project_id, schedule_name)))


@router.put(
    "/schedules/{scheduleName}",
    summary="Change a schedule by its name; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 412)},
)
def update_named_schedule(
    project_id: ProjectId,
    schedule_name: ScheduleName,
    body: ScheduleUpdate,
    caller: Writer,
    session: WriteSession,
    if_match: IfMatch,
    response: Response,
) -> ScheduleRecord:
    """Change the fields that the body has. Its `cronSchedule` cannot be empty; the name stays."""
    changed = schedules.update(session, caller, project_id, body, if_match, schedule_name)
    return build_schedule_record(set_etag(response, changed))


@router.delete("/schedules/{scheduleName}", summary="Delete a schedule with its ticks", responses=answers(404, 412))
def delete_schedule(
    project_id: ProjectId, schedule_name: ScheduleName, caller: Writer, session: WriteSession, if_match: IfMatch
) -> Nothing:
    """Delete a schedule. Executions that wait for a slot since its last tick are not made."""
    schedules.delete(session, caller, project_id, schedule_name, if_match)
    return Nothing()


@router.get(
    "/schedules/{scheduleName}/ticks", summary="List the ticks of a schedule, newest first", responses=answers(404)
)
def list_named_ticks(
    project_id: ProjectId, schedule_name: ScheduleName, caller: Reader, session: ReadSession, page: PageOf
) -> list[TickRecord]:
    """Return the ticks of the last 90 days as those of the project's schedule without a name."""
    ticks = schedules.list_ticks(session, caller, project_id, schedule_name, limit=page.limit, before=page.after)
    page.link([each.tick.id for each in ticks])
    return [build_tick_record(each) for each in ticks]
