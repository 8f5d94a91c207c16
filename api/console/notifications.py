"""Pages of notifications: which rules tell whom of which jobs, forms to write them, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from api.console.rendering import render
from api.console.routes import ConsolePageOf, open_router
from api.credentials import endpoints as credentials
from api.credentials.schemas import CredentialRecord
from api.jobs import endpoints as jobs
from api.kit.auth import Reader
from api.kit.pagination import Page
from api.kit.schemas import ProjectId
from api.kit.services import ServicesOf
from api.notifications import endpoints as notifications
from api.notifications.endpoints import RuleName
from api.notifications.schemas import RuleRecord
from api.projects import endpoints as projects
from core.definitions.identity.api_keys import Identity
from core.integrations.notifications.channels import FIELDS
from core.integrations.notifications.deliver import describe_notice
from core.integrations.notifications.models import MAX_PAUSE
from core.lifecycle.executions.notices import EVENTS

MOST_MESSAGES = 20
router = open_router()


@dataclass(frozen=True, slots=True)
class ShownRule:
    """A rule with the name of its job; `target` is None where its credential is not there any more."""

    rule: RuleRecord
    target: CredentialRecord | None
    job_name: str | None


@router.get("/notifications")
def show_notifications(request: Request, caller: Reader, services: ServicesOf, page: ConsolePageOf) -> HTMLResponse:
    """Show the rules of a page of projects, and the targets of all rules."""
    with services.database.read() as session:
        listed = projects.list_projects(caller, session, page)
        targets = list_targets(session, caller, request)
        found = [(project, load_rules(session, caller, request, project.id, targets)) for project in listed]
    return render(
        request,
        "notifications.html",
        projects=listed,
        rules=[(project, each) for project, of in found for each in of],
        following=page.following,
        targets=targets,
        kinds=[*FIELDS],
    )


@router.get("/projects/{projectId}/rules/new")
def show_new_rule(
    request: Request,
    response: Response,
    project_id: ProjectId,
    caller: Reader,
    services: ServicesOf,
    job: Annotated[str, Query(max_length=255)] = "",
) -> HTMLResponse:
    """Show the form of a new rule, of one job where `job` has its id."""
    project = projects.read_project(project_id, caller, services, response)
    with services.database.read() as session:
        listed = jobs.list_jobs(project_id, caller, session, Page(request, Response()))
        targets = list_targets(session, caller, request)
    return render(
        request,
        "rule.html",
        project=project,
        rule=None,
        etag=None,
        job=job,
        jobs=listed,
        targets=targets,
        messages=(),
        events=EVENTS,
        longest_pause=MAX_PAUSE,
    )


@router.get("/projects/{projectId}/rules/of/{ruleName}")
def show_rule(
    request: Request,
    response: Response,
    project_id: ProjectId,
    rule_name: RuleName,
    caller: Reader,
    services: ServicesOf,
) -> HTMLResponse:
    """Show a rule with its last messages and the form that changes it."""
    project = projects.read_project(project_id, caller, services, response)
    with services.database.read() as session:
        rule = notifications.read_rule(project_id, rule_name, caller, session, response)
        messages = notifications.list_messages(
            project_id, rule_name, caller, session, Page(request, Response(), MOST_MESSAGES)
        )
        listed = jobs.list_jobs(project_id, caller, session, Page(request, Response()))
        targets = list_targets(session, caller, request)
    return render(
        request,
        "rule.html",
        project=project,
        rule=rule,
        etag=response.headers["ETag"],
        job=rule.job_id,
        jobs=listed,
        targets=targets,
        messages=[(each, [*map(describe_notice, each.payload["notices"])]) for each in messages],
        events=EVENTS,
        longest_pause=MAX_PAUSE,
    )


def list_targets(session: Session, caller: Identity, request: Request) -> Sequence[CredentialRecord]:
    """Return all credentials that rules may tell people by."""
    listed = credentials.list_credentials(caller, session, Page(request, Response()))
    return [each for each in listed if each.provider in FIELDS]


def load_rules(
    session: Session, caller: Identity, request: Request, project_id: str, targets: Sequence[CredentialRecord]
) -> Sequence[ShownRule]:
    """Return the rules of a project with what a page names of them."""
    rules = notifications.list_rules(project_id, caller, session)
    by_id, names = {each.id: each for each in targets}, dict[str, str]()
    if any(rule.job_id for rule in rules):
        listed = jobs.list_jobs(project_id, caller, session, Page(request, Response()))
        names = {each.id: each.name for each in listed}
    return [
        ShownRule(rule, by_id.get(rule.cloud_credential_id), names.get(rule.job_id) if rule.job_id else None)
        for rule in rules
    ]
