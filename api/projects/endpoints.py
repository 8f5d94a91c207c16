"""Projects: create, list, read by id or name, update, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from api.kit.auth import AnyKey, KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.pagination import PageOf
from api.kit.preconditions import TAGGED, ExpectedOf, TagOf
from api.kit.schemas import Nothing, ProjectId
from api.kit.service import ServiceOf
from api.projects.schemas import ProjectCreate, ProjectRecord, ProjectUpdate, project_record
from core.projects.repository import Projects

router = APIRouter(prefix="/projects", tags=["projects"], route_class=KeyRoute)


@router.get("", summary="List the projects")
def list_projects(caller: Reader, service: ServiceOf, page: PageOf) -> list[ProjectRecord]:
    with service.database.read() as session:
        projects = Projects(session, caller.organization_id).records(limit=page.limit, after=page.after)
        page.link([project["id"] for project in projects])
        return [project_record(project) for project in projects]


@router.post("", summary="Create a project", responses={**TAGGED, **answers(409)})
def create_project(body: ProjectCreate, caller: Writer, service: ServiceOf, tag: TagOf) -> ProjectRecord:
    with service.database.write() as session:
        repository = Projects(session, caller.organization_id)
        project = repository.record(repository.create(body.values()))
        tag.put(project)
        return project_record(project)


@router.get("/test", summary="Tell that the projects answer")
def projects_answer(_caller: AnyKey) -> Nothing:
    return Nothing()


@router.get("/id/{projectId}", summary="Read a project", responses={**TAGGED, **answers(404)})
async def read_project(project_id: ProjectId, caller: Reader, service: ServiceOf, tag: TagOf) -> ProjectRecord:
    project = await service.reads.read(Projects, caller.organization_id, project_id)
    tag.put(project)
    return project_record(project)


@router.put(
    "/id/{projectId}",
    summary="Change a project; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 409, 412)},
)
def update_project(
    project_id: ProjectId, body: ProjectUpdate, caller: Writer, service: ServiceOf, expected: ExpectedOf
) -> ProjectRecord:
    with service.database.write() as session:
        repository = Projects(session, caller.organization_id)
        expected.hold(session, caller, repository.get(project_id))
        project = repository.record(repository.update(project_id, body.values()))
        expected.put(project)
        return project_record(project)


@router.delete(
    "/id/{projectId}", summary="Delete a project with its jobs, executions and datasets", responses=answers(404, 412)
)
def delete_project(project_id: ProjectId, caller: Writer, service: ServiceOf, expected: ExpectedOf) -> Nothing:
    with service.database.write() as session:
        repository = Projects(session, caller.organization_id)
        expected.hold(session, caller, repository.get(project_id))
        repository.delete(project_id)
    return Nothing()


@router.get("/{projectName}", summary="Read a project by its name", responses={**TAGGED, **answers(404)})
def read_project_by_name(
    project_name: Annotated[str, Path(alias="projectName")], caller: Reader, service: ServiceOf, tag: TagOf
) -> ProjectRecord:
    with service.database.read() as session:
        repository = Projects(session, caller.organization_id)
        project = repository.record(repository.by_name(project_name))
        tag.put(project)
        return project_record(project)
