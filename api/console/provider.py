"""Signing in by the provider of OpenID Connect: there, and back with a code; and out again, begun here or there."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from api.console.rendering import render
from api.console.sessions import HOME, get_origin, open_session, set_cookie
from api.kit.services import Services, ServicesOf
from core.definitions.identity.audit import record_action
from core.definitions.identity.console_sessions import begin_session
from core.definitions.identity.people import follow_sign_out, store_person
from core.errors import Forbidden, NotFound, SpindleError
from core.integrations.oidc import ATTEMPT_SECONDS, EXPIRED, SignInProvider

PATH = f"{HOME}/sign-in/provider"
ATTEMPT_COOKIE = "spindle_sign_in"
Text = Annotated[str, Query(max_length=8000)]
router = APIRouter(include_in_schema=False)


@router.get(PATH)
def begin_sign_in(request: Request, services: ServicesOf, target: Text = HOME) -> Response:
    """Lead the browser to the provider."""
    if services.provider is None:
        raise NotFound("Nobody but keys signs in here: SPINDLE_OIDC_ISSUER is not set.")
    try:
        address, kept = services.provider.begin(_get_callback(request, services), target)
    except SpindleError as error:
        return render(request, "sign_in.html", error.status, target=target, problem=error.sentence)
    response = RedirectResponse(address, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})
    set_cookie(request, services, response, ATTEMPT_COOKIE, kept, ATTEMPT_SECONDS)
    return response


@router.get(f"{PATH}/callback")
def complete_sign_in(
    request: Request, services: ServicesOf, state: Text = "", code: Text = "", error: Text = "", iss: Text | None = None
) -> Response:
    """Begin the session of the person whom the provider sends back with a code; from a sign-out, there is none."""
    if services.provider is None:
        raise NotFound("Nobody but keys signs in here: SPINDLE_OIDC_ISSUER is not set.")
    if not (state or code or error):
        return RedirectResponse(HOME, HTTPStatus.SEE_OTHER)
    try:
        if error:
            name = error if re.fullmatch(r"\w{1,40}", error) else "an error"
            raise Forbidden(f"The provider has not signed you in ({name}).")
        kept = request.cookies.get(ATTEMPT_COOKIE)
        if not (kept and code):
            raise Forbidden(EXPIRED)
        attempt, claims, id_token = services.provider.complete(kept, state, code, iss)
        with services.database.write() as session:
            person = store_person(session, services.keys, services.provider.find_rights(session, claims))
            sid = str(claims["sid"]) if "sid" in claims else None
            token = begin_session(session, person_id=person.id, provider_session=sid, id_token=id_token)
        response = open_session(request, services, services.keys.authenticate(token), token, attempt.target)
    except SpindleError as problem:
        response = render(request, "sign_in.html", problem.status, target=HOME, problem=problem.sentence)
    response.delete_cookie(ATTEMPT_COOKIE)
    return response


def render_sign_out(request: Request, services: Services, provider: SignInProvider, id_token: str) -> Response:
    """Lead the browser, whose session here has ended, to the provider's sign-out, if it has one.

    A page does so: browsers that got it for a form follow no redirect to another site (`form-action` of the CSP).
    """
    try:
        address = provider.find_exit(id_token, _get_callback(request, services))
    except SpindleError as error:
        problem = f"You are signed out here, but perhaps not at your provider. {error.sentence}"
        return render(request, "sign_in.html", error.status, target=HOME, problem=problem)
    return (
        render(request, "sign_out.html", address=address) if address else RedirectResponse(HOME, HTTPStatus.SEE_OTHER)
    )


@router.post(f"{PATH}/sign-out")
def end_sessions(services: ServicesOf, logout_token: Annotated[str, Form(max_length=16_000)] = "") -> Response:
    """End the sessions that the provider has ended (OpenID Connect Back-Channel Logout 1.0). Its token is the proof."""
    if services.provider is None:
        raise NotFound("Nobody but keys signs in here: SPINDLE_OIDC_ISSUER is not set.")
    found = services.provider.read_sign_out(logout_token)
    with services.database.write() as session:
        people = follow_sign_out(session, services.keys, found)
    for person in people:
        record_action(services.database, person, "sign_out_by_provider", {}, HTTPStatus.OK)
    return Response(headers={"Cache-Control": "no-store"})


def _get_callback(request: Request, services: Services) -> str:
    return f"{get_origin(request, services)}{PATH}/callback"
