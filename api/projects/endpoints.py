"""Projects: create, list, read by id or name, update, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from api.kit.auth import AnyKey, KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.pages import PageOf
from api.kit.schemas import Nothing, ProjectId
from api.kit.service import ServiceOf
from api.projects.schemas import ProjectCreate, ProjectRecord, ProjectUpdate, project_record
from core.projects import Projects

router = APIRouter(prefix="/projects", tags=["projects"], route_class=KeyRoute)


@router.get("", summary="List the projects")
def list_projects(caller: Reader, service: ServiceOf, page: PageOf) -> list[ProjectRecord]:
    with service.database.read() as session:
        repository = Projects(session, caller.organization_id)
        projects = page.linked(repository.list(limit=page.limit, after=page.after))
        job_ids = repository.job_ids(projects)
        return [project_record(project, job_ids.get(project.id, ())) for project in projects]


@router.post("", summary="Create a project", responses=answers(409))
def create_project(body: ProjectCreate, caller: Writer, service: ServiceOf) -> ProjectRecord:
    with service.database.write() as session:
        return project_record(Projects(session, caller.organization_id).create(body.values()), ())


@router.get("/test", summary="Tell that the projects answer")
def projects_answer(_caller: AnyKey) -> Nothing:
    return Nothing()


@router.get("/id/{projectId}", summary="Read a project", responses=answers(404))
def read_project(project_id: ProjectId, caller: Reader, service: ServiceOf) -> ProjectRecord:
    with service.database.read() as session:
        repository = Projects(session, caller.organization_id)
        project = repository.get(project_id)
        return project_record(project, repository.job_ids([project]).get(project.id, ()))


@router.put("/id/{projectId}", summary="Change a project; what the body leaves out stays", responses=answers(404, 409))
def update_project(project_id: ProjectId, body: ProjectUpdate, caller: Writer, service: ServiceOf) -> ProjectRecord:
    with service.database.write() as session:
        repository = Projects(session, caller.organization_id)
        project = repository.update(project_id, body.values())
        return project_record(project, repository.job_ids([project]).get(project.id, ()))


@router.delete(
    "/id/{projectId}", summary="Delete a project with its jobs, executions and datasets", responses=answers(404)
)
def delete_project(project_id: ProjectId, caller: Writer, service: ServiceOf) -> Nothing:
    with service.database.write() as session:
        Projects(session, caller.organization_id).delete(project_id)
    return Nothing()


@router.get("/{projectName}", summary="Read a project by its name", responses=answers(404))
def read_project_by_name(
    project_name: Annotated[str, Path(alias="projectName")], caller: Reader, service: ServiceOf
) -> ProjectRecord:
    with service.database.read() as session:
        repository = Projects(session, caller.organization_id)
        project = repository.by_name(project_name)
        return project_record(project, repository.job_ids([project]).get(project.id, ()))
