"""Projects: create, list, read by id or name, update, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.kit.auth import AnyKey, KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import Nothing, ProjectId
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from api.projects.schemas import ProjectRecord, build_project_record
from core.definitions.projects import service as projects
from core.definitions.projects.models import ProjectCreate, ProjectUpdate
from core.lifecycle.executions.transitions import end_executions

router = APIRouter(prefix="/projects", tags=["projects"], route_class=KeyRoute)


@router.get("", summary="List the projects")
def list_projects(caller: Reader, session: ReadSession, page: PageOf) -> list[ProjectRecord]:
    """Return the organization's projects, oldest first.

    With `limit` the answer is a page, and the `Link` header has the next one.
    """
    found = projects.list_projects(session, caller, limit=page.limit, after=page.after)
    page.link([each.project.id for each in found])
    return [build_project_record(each) for each in found]


@router.post("", dependencies=[REPLAYED], summary="Create a project", responses={**TAGGED, **answers(409)})
def create_project(body: ProjectCreate, caller: Writer, session: WriteSession, response: Response) -> ProjectRecord:
    """Store a project, which groups jobs.

    Its name is unique in the organization. Its slug is its schema in SQL and stays when the project is renamed.
    """
    return build_project_record(set_etag(response, projects.create(session, caller, body)))


@router.get("/test", summary="Tell that the projects answer")
def projects_answer(_caller: AnyKey) -> Nothing:
    """Return an empty object. Clients call it to check their address and key."""
    return Nothing()


@router.get("/id/{projectId}", summary="Read a project", responses={**TAGGED, **answers(404)})
def read_project(project_id: ProjectId, caller: Reader, services: ServicesOf, response: Response) -> ProjectRecord:
    """Return a project with the ids of its jobs."""
    return build_project_record(set_etag(response, projects.get(services.database, caller, project_id)))


@router.put(
    "/id/{projectId}",
    summary="Change a project; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 409, 412)},
)
def update_project(
    project_id: ProjectId,
    body: ProjectUpdate,
    caller: Writer,
    session: WriteSession,
    if_match: IfMatch,
    response: Response,
) -> ProjectRecord:
    """Change the fields that the body has; an empty `cronSchedule` removes the schedule.

    The jobs of a disabled project cannot be executed.
    """
    return build_project_record(set_etag(response, projects.update(session, caller, project_id, body, if_match)))


@router.delete(
    "/id/{projectId}", summary="Delete a project with its jobs, executions and datasets", responses=answers(404, 412)
)
def delete_project(project_id: ProjectId, caller: Writer, session: WriteSession, if_match: IfMatch) -> Nothing:
    """Cancel the project's executions and delete it with its jobs, executions and datasets. This cannot be undone."""
    projects.delete(session, caller, project_id, if_match, end_executions)
    return Nothing()


@router.get("/{projectName}", summary="Read a project by its name", responses={**TAGGED, **answers(404)})
def read_project_by_name(
    project_name: Annotated[str, Path(alias="projectName", description="Name of the project.")],
    caller: Reader,
    session: ReadSession,
    response: Response,
) -> ProjectRecord:
    """Return the project with this name. A slash in it is sent as `%2F`."""
    return build_project_record(set_etag(response, projects.get_by_name(session, caller, project_name)))
