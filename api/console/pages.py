"""The pages of the console. They show answers of the REST API, with the rights of the session's key."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse

from api.console.notifications import list_targets, load_rules
from api.console.plots import Plot, build_plot
from api.console.rendering import (
    count_failures,
    count_rows,
    format_money,
    format_number,
    format_seconds,
    render,
)
from api.console.routes import ConsolePageOf, open_router
from api.console.rows import Rows, load_rows
from api.console.shared_pages import LiveRoute
from api.console.texts import TEXT
from api.executions import endpoints as executions
from api.executions.links import LinksOf
from api.executions.schemas import Attempt, ExecutionRecord, Level
from api.jobs import endpoints as jobs
from api.jobs.schemas import JobRecord
from api.kit.auth import Reader
from api.kit.pagination import Page
from api.kit.schemas import ExecutionId, JobId, ProjectId
from api.kit.services import Services, ServicesOf
from api.metrics import endpoints as metrics
from api.metrics.schemas import execution_costs
from api.projects import endpoints as projects
from api.schedules import endpoints as schedules
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.service import get_own_organization
from core.definitions.schedules.service import list_next
from core.lifecycle.executions.pools import MAX_CONCURRENT_EXECUTIONS
from core.lifecycle.metrics.service import get_bill
from core.lifecycle.usage.periods import Period
from core.tables import now
from core.tables.states import TERMINAL, State

LIVE = [state for state in State if state not in TERMINAL]
RECENT = timedelta(hours=24)
MOST_LIVE, MOST_FAILED, NEXT_TICKS, PLOTTED = 50, 20, 8, 30
PREVIEWED, MOST_FAILURES = 20, 25
LOG_LINES, LONGEST_LINE, LOG_CHARACTERS = 500, 2000, 20_000

router = open_router(LiveRoute)


@router.get("")
def show_home(
    request: Request, response: Response, caller: Reader, services: ServicesOf, page: ConsolePageOf, links: LinksOf
) -> HTMLResponse:
    since = now() - RECENT
    live = executions.list_all_executions(
        caller, services, Page(request, response, MOST_LIVE), links, [state for state in LIVE], None
    )
    failed = executions.list_all_executions(
        caller, services, Page(request, response, MOST_FAILED), links, [State.FAILED], since
    )
    with services.database.read() as session:
        listed = projects.list_projects(caller, session, page)
        names: dict[str, str] = {}
        for project_id in {each.project_id for each in (*live, *failed)}:
            names |= {job.id: job.name for job in jobs.list_jobs(project_id, caller, session, Page(request, response))}
        this_month = Period.from_texts(now().strftime("%Y-%m-01"), None, now())
        return render(
            request,
            "home.html",
            organization=get_own_organization(session, caller),
            projects=listed,
            following=page.following,
            live=live,
            failed=failed,
            job_names=names,
            project_names={each.id: each.name for each in listed},
            slots=MAX_CONCURRENT_EXECUTIONS,
            busy=[each.project_id for each in live if State(each.state).holds_slot],
            ticks=list_next(session, caller, NEXT_TICKS),
            month=metrics.read_organization_metrics(caller.organization_id, caller, session, this_month)
            if caller.admin
            else None,
        )


@router.get("/projects/{projectId}")
def show_project(
    request: Request,
    response: Response,
    project_id: ProjectId,
    caller: Reader,
    services: ServicesOf,
    page: ConsolePageOf,
) -> HTMLResponse:
    project = projects.read_project(project_id, caller, services, response)
    with services.database.read() as session:
        return render(
            request,
            "project.html",
            project=project,
            jobs=jobs.list_jobs(project_id, caller, session, page),
            following=page.following,
            schedules=schedules.list_schedules(project_id, caller, session),
            rules=load_rules(session, caller, request, project_id, list_targets(session, caller, request)),
        )


@router.get("/projects/{projectId}/jobs/{jobId}")
def show_job(
    request: Request,
    response: Response,
    project_id: ProjectId,
    job_id: JobId,
    caller: Reader,
    services: ServicesOf,
    page: ConsolePageOf,
    links: LinksOf,
) -> HTMLResponse:
    job = jobs.read_job(project_id, job_id, caller, services, response)
    listed = executions.list_executions(project_id, job_id, caller, services, page, links)
    with services.database.read() as session:
        rules = load_rules(session, caller, request, project_id, list_targets(session, caller, request))
    return render(
        request,
        "job.html",
        project=projects.read_project(project_id, caller, services, response),
        job=job,
        executions=listed,
        following=page.following,
        plots=_build_plots(services, caller, job, listed),
        rules=[each for each in rules if each.rule.job_id in (None, job_id)],
    )


def _build_plots(
    services: Services, caller: Identity, job: JobRecord, listed: Sequence[ExecutionRecord]
) -> Sequence[Plot]:
    """Return plots of the newest executions that have ended on this page, the oldest first."""
    ended = [each for each in listed if State(each.state).terminal][:PLOTTED][::-1]
    with services.database.read() as session:
        bills = [
            execution_costs(get_bill(session, caller, job.project_id, job.id, each.execution_id)).cost_breakdown.total
            for each in ended
        ]
    times = [TEXT.parts.utc.format(at=f"{each.created_at:%Y-%m-%d %H:%M}") for each in ended]
    names = [(time, each.state != State.COMPLETED) for time, each in zip(times, ended, strict=True)]

    def plot(title: str, values: Sequence[float | None], show: Any) -> Plot:
        known = [(value, *name) for value, name in zip(values, names, strict=True) if value is not None]
        return build_plot(title, known, show)

    return (
        plot(TEXT.job.rows, [count_rows(each) or 0 for each in ended], format_number),
        plot(TEXT.job.seconds, [each.execution_time_seconds or 0 for each in ended], format_seconds),
        plot(TEXT.job.plotted_cost, bills, format_money),
        plot(TEXT.job.failed_pages, [count_failures(each) for each in ended], format_number),
    )


@router.get("/projects/{projectId}/jobs/{jobId}/executions/{executionId}")
def show_execution(
    request: Request,
    response: Response,
    project_id: ProjectId,
    job_id: JobId,
    execution_id: ExecutionId,
    caller: Reader,
    services: ServicesOf,
    links: LinksOf,
    level: Annotated[Level | None, Query()] = None,
    attempt: Attempt = None,
) -> HTMLResponse:
    ids = (project_id, job_id, execution_id)
    execution = executions.read_execution(*ids, caller, services, links)
    job = jobs.read_job(project_id, job_id, caller, services, response)
    project = projects.read_project(project_id, caller, services, response)
    failures = executions.list_failures(*ids, caller, services, Page(request, response, MOST_FAILURES), attempt=attempt)
    log = executions.read_execution_logs(*ids, caller, services, tail=LOG_LINES, level=level, attempt=attempt)
    attempts = executions.list_attempts(*ids, caller, services)
    with services.database.read() as session:
        costs = metrics.read_execution_costs(*ids, caller, session).cost_breakdown
    return render(
        request,
        "execution.html",
        project=project,
        job=job,
        execution=execution,
        ended=State(execution.state).terminal,
        attempts=attempts,
        failures=failures,
        log=_cut_log(log.logs),
        level=level,
        attempt=attempt,
        costs=costs,
        preview=_load_preview(services, caller, execution),
    )


def _cut_log(lines: Sequence[str]) -> Sequence[str]:
    """Return the last lines that a page has room for, each cut."""
    shown, room = list[str](), LOG_CHARACTERS
    for line in reversed(lines):
        cut = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"
        room -= len(cut)
        if room < 0:
            break
        shown.append(cut)
    return shown[::-1]


def _load_preview(services: Services, caller: Identity, execution: ExecutionRecord) -> Rows | None:
    """Return the first rows that the execution published; None before, and without the right to read them."""
    if execution.dataset_id is None or not caller.may("datasets:read"):
        return None
    return load_rows(services, caller, execution.dataset_id, execution_id=execution.execution_id, limit=PREVIEWED)
