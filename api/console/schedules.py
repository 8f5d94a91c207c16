"""Pages of schedules and cron jobs: what fires when, and forms to write them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse

from api.console.rendering import render
from api.console.routes import ConsolePageOf, open_router
from api.cron_jobs import endpoints as cron_jobs
from api.cron_jobs.endpoints import CronJobName, Namespace
from api.jobs import endpoints as jobs
from api.kit.auth import Reader
from api.kit.pagination import Page
from api.kit.schemas import ProjectId
from api.kit.services import ServicesOf
from api.projects import endpoints as projects
from api.schedules import endpoints as schedules
from core.definitions.cron_jobs.models import DEFAULT_NAMESPACE
from core.definitions.schedules.repository import MISSED, OVERLAPS

MOST_TICKS = 20
router = open_router()


@router.get("/schedules")
def show_schedules(
    request: Request,
    response: Response,
    caller: Reader,
    services: ServicesOf,
    page: ConsolePageOf,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> HTMLResponse:
    """Show the schedules of a page of projects, and all cron jobs of a namespace."""
    with services.database.read() as session:
        listed = projects.list_projects(caller, session, page)
        found = [(each, schedules.list_schedules(each.id, caller, session)) for each in listed]
        called = cron_jobs.list_cron_jobs(caller, session, Page(request, response), namespace)
    return render(
        request,
        "schedules.html",
        projects=listed,
        schedules=[(project, each) for project, of in found for each in of if each.cron_schedule],
        following=page.following,
        cron_jobs=called,
        namespace=namespace,
    )


@router.get("/projects/{projectId}/schedule")
def show_schedule(
    request: Request,
    response: Response,
    project_id: ProjectId,
    caller: Reader,
    services: ServicesOf,
    name: Annotated[str, Query(max_length=255)] = "",
) -> HTMLResponse:
    """Show a schedule with its ticks and the form that changes it; without a name that of the project."""
    project = projects.read_project(project_id, caller, services, response)
    ticks_page = Page(request, Response(), MOST_TICKS)
    with services.database.read() as session:
        listed = jobs.list_jobs(project_id, caller, session, Page(request, Response()))
        if name:
            schedule = schedules.read_named_schedule(project_id, name, caller, session, response)
            ticks = schedules.list_named_ticks(project_id, name, caller, session, ticks_page)
        else:
            schedule = schedules.read_schedule(project_id, caller, session, response)
            ticks = schedules.list_ticks(project_id, caller, session, ticks_page)
    etag = response.headers["ETag"]
    return render(
        request,
        "schedule.html",
        project=project,
        jobs=listed,
        schedule=schedule,
        ticks=ticks,
        etag=etag,
        overlaps=OVERLAPS,
        missed=MISSED,
    )


@router.get("/projects/{projectId}/schedule/new")
def show_new_schedule(
    request: Request, response: Response, project_id: ProjectId, caller: Reader, services: ServicesOf
) -> HTMLResponse:
    project = projects.read_project(project_id, caller, services, response)
    with services.database.read() as session:
        listed = jobs.list_jobs(project_id, caller, session, Page(request, response))
    return render(
        request,
        "schedule.html",
        project=project,
        jobs=listed,
        schedule=None,
        ticks=(),
        etag=None,
        overlaps=OVERLAPS,
        missed=MISSED,
    )


@router.get("/cron-jobs/new")
def show_new_cron_job(request: Request, _caller: Reader) -> HTMLResponse:
    return render(request, "cron_job.html", cron_job=None, etag=None)


@router.get("/cron-jobs/of/{name}")
def show_cron_job(
    request: Request,
    response: Response,
    name: CronJobName,
    caller: Reader,
    services: ServicesOf,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> HTMLResponse:
    with services.database.read() as session:
        found = cron_jobs.read_cron_job(name, caller, services, session, response, namespace)
    return render(request, "cron_job.html", cron_job=found, etag=response.headers["ETag"])
