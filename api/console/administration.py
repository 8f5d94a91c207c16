"""The pages of people, keys and the audit log."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from api.audit import endpoints as audit
from api.console.rendering import render
from api.console.routes import ConsolePageOf, ConsoleRoute
from api.identity import endpoints as identity
from api.kit.auth import Admin, AnyKey
from api.kit.pagination import Page
from api.kit.services import ServicesOf
from api.people import endpoints as people
from core.definitions.identity.people import LONGEST_KEY
from core.definitions.identity.roles import ORDINARY_SCOPES, SCOPES, SUPER_ADMIN
from core.errors import Forbidden
from core.infra.settings.sign_in import ROLES
from core.tables import now

OWN_KEYS = "/auth/people/me/api-keys"
USUAL_END = timedelta(days=90)

router = APIRouter(prefix="/console", route_class=ConsoleRoute, include_in_schema=False)


@router.get("/people")
def show_people(request: Request, caller: Admin, services: ServicesOf, page: ConsolePageOf) -> HTMLResponse:
    with services.database.read() as session:
        listed = people.list_people(caller, session, page)
    return render(request, "people.html", people=listed, following=page.following, roles=ROLES)


@router.get("/keys")
def show_keys(
    request: Request, response: Response, caller: AnyKey, services: ServicesOf, page: ConsolePageOf
) -> HTMLResponse:
    if not (caller.admin or caller.person_id):
        raise Forbidden("This key is nobody's, so it has no keys of its own. An admin makes further ones.")
    with services.database.read() as session:
        own = people.list_personal_keys(caller, session, Page(request, response)) if caller.person_id else None
        listed = identity.list_keys(caller, session, page) if caller.admin else None
    at = now()
    return render(
        request,
        "keys.html",
        own=own,
        all=listed,
        following=page.following,
        own_path=OWN_KEYS,
        ordinary=ORDINARY_SCOPES,
        grantable=sorted(SCOPES if caller.may(SUPER_ADMIN) else SCOPES - {SUPER_ADMIN}),
        last_day=(at + USUAL_END).date(),
        latest=(at + LONGEST_KEY - timedelta(days=1)).date(),
    )


@router.get("/audit")
def show_audit(request: Request, caller: Admin, services: ServicesOf, page: ConsolePageOf) -> HTMLResponse:
    with services.database.read() as session:
        entries = audit.list_audit_entries(caller, session, page)
    return render(request, "audit.html", entries=entries, following=page.following)
